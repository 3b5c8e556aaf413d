"""Files as checked bytes: every way in which a file can be no text, and bounded unpacking."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path

import pytest
import zstandard

from relgrade_assets.errors import Refused
from relgrade_assets.io import text
from relgrade_assets.io.text import Missing, read_bytes, read_text


def put(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).write_bytes(data)
    return folder / name


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a", b"", "0 bytes"),
        ("a", b"\xef\xbb\xbf", "byte-order mark and nothing else"),
        ("a", b"x\ny\0z", "a, line 2, byte 4: found a NUL byte"),
        ("a", b"x\n\xff y\nz\n\xc3(", "2 faults"),
        ("a", b"x\nab\xe9\n", "a, line 2, byte 5: found the byte 0xE9"),
        ("a", b"\xed\xa0\x80", "not UTF-8"),
        ("a", "x".encode("utf-16"), "UTF-16"),
        ("a", gzip.compress(b"x" * 99, mtime=0), ".gz"),
        ("a.gz", b"plain", "not gzip"),
        ("a.gz", gzip.compress(b"x" * 9999, mtime=0)[:-9], "breaks off"),
        ("a.gz", gzip.compress(b"", mtime=0), "0 bytes"),
        ("a.gz", gzip.compress(b"x", mtime=0) + b"rubbish", "not gzip"),
        ("a.zst", b"plain", "not zstd"),
        ("a.zst", zstandard.compress(os.urandom(999))[:-9], "breaks off"),
        ("a.zst", zstandard.compress(b"x") + b"rubbish", "zstd"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    with pytest.raises(Refused) as caught:
        read_text(put(tmp_path, name, data), name=name)
    assert says in str(caught.value)
    assert not isinstance(caught.value, Missing)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a", b"x\ny\n"),
        ("a.gz", gzip.compress(b"x\n", mtime=0) + gzip.compress(b"y\n", mtime=0)),
        ("a.GZ", gzip.compress(b"x\ny\n", mtime=0) + b"\0\0\0"),
        ("a.zst", zstandard.compress(b"x\n") + zstandard.compress(b"y\n")),
        ("a", b"\xef\xbb\xbfx\r\ny\r\n"),
    ],
)
def test_plain_packed_marked_and_crlf_give_the_same_bytes(tmp_path: Path, name: str, data: bytes) -> None:
    assert read_text(put(tmp_path, name, data), name=name).data == b"x\ny\n"


def test_bom_and_crlf_are_counted(tmp_path: Path) -> None:
    read = read_text(put(tmp_path, "a", b"\xef\xbb\xbfx\r\ny\r\n"), name="a")
    assert {n.code: n.count for n in read.notices} == {"byte_order_mark": 1, "crlf": 2}


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_bomb_is_refused_by_size_and_by_ratio(tmp_path: Path, pack: object, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a.gz" if pack is gzip.compress else "a.zst"
    path = put(tmp_path, name, pack(bytes(8 << 20)))  # type: ignore[operator]
    assert len(read_bytes(path, name=name, size_limit=8 << 20)) == 8 << 20
    with pytest.raises(Refused, match="unpacks to more than 8388607 bytes"):
        read_bytes(path, name=name, size_limit=(8 << 20) - 1)
    monkeypatch.setattr(text, "RATIO_FROM", 1 << 20)
    with pytest.raises(Refused, match="250 times as much"):
        read_bytes(path, name=name)


def test_line_limit_is_exact_and_says_the_line(tmp_path: Path) -> None:
    assert read_text(put(tmp_path, "a", b"a\n" + b"x" * 50 + b"\nb"), name="a", line_limit=50).data
    with pytest.raises(Refused, match="a, line 2: found a line of more than 50 bytes"):
        read_text(put(tmp_path, "a", b"a\n" + b"x" * 51 + b"\nb"), name="a", line_limit=50)
    with pytest.raises(Refused, match="line 1"):
        read_text(put(tmp_path, "a", b"x" * 51), name="a", line_limit=50)


def test_utf8_is_checked_across_pieces(tmp_path: Path) -> None:
    data = ("é" * 20 + "\n").encode() * 30
    assert read_text(put(tmp_path, "a", data), name="a", line_limit=64).data == data
    with pytest.raises(Refused, match="a, line 31, byte 1231"):
        read_text(put(tmp_path, "a", data + b"\xff\n"), name="a", line_limit=64)


def test_missing_is_told_from_refused_and_survives_pickling(tmp_path: Path) -> None:
    with pytest.raises(Missing) as caught:
        read_text(tmp_path / "none", name="runs/none")
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert isinstance(again, Missing)
    assert str(again) == str(caught.value)
    assert str(tmp_path) not in str(again)


def test_folders_pipes_and_links_that_lead_out_are_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    out = put(tmp_path, "out", b"x")
    (home / "link").symlink_to(out)
    (home / "loop").symlink_to(home / "loop")
    put(home, "in", b"x")
    (home / "fine").symlink_to(home / "in")
    os.mkfifo(home / "pipe")
    assert read_text(home / "fine", name="fine", inside=home).data == b"x"
    for name, says in {
        "link": "leads out",
        "../out": "leads out",
        ".": "a folder",
        "pipe": "pipe",
        "loop": "can.t be",
        "a\0": "followed",
    }.items():
        with pytest.raises(Refused, match=says):
            read_text(home / name, name=name, inside=home)
    (home / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(Refused, match="leads out"):
        read_text(home / "dangling", name="dangling", inside=home)

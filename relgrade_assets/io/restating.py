"""Remaking what says how a key stands, when the log says something new of it: status files, and in the published
folder the log, the manifest and the banners of pages (P33, P35).

Nothing is measured here and no digest of another file is made new: what was altered in a folder stays told from what
was published.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from relgrade_assets.errors import Refused
from relgrade_assets.io import croissant, events, publication
from relgrade_assets.io.atomic import replace_folder, write_bytes
from relgrade_assets.io.key_store import sums_bytes
from relgrade_assets.io.report.banner import with_standing
from relgrade_assets.io.standing import standing_of, status_bytes
from relgrade_assets.io.study import Study
from relgrade_assets.protocol.canonical import digest_bytes


def restate(study: Study) -> None:
    """Remake every status file in the key store, and the published folder's word on its key, from the present log."""
    log = study.log
    for event in log:
        if event.kind == "frozen":
            stored = study.keys.folder(study.name, event.round)
            if stored.is_dir():
                key = str(event.body["key_digest"])
                write_bytes(status_path(study, event.round), status_bytes(log, round=event.round, key_digest=key))
    folder = study.home.published / study.name
    if not folder.is_dir():
        return
    with suppress(OSError, ValueError, KeyError, TypeError, Refused):  # altered: verify names it, and it stays as it is
        files = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file() and not p.is_symlink()}
        replace_folder(folder, restated(files, log, publication.pseudonyms(study.design)))


def status_path(study: Study, round: int) -> Path:
    """Where the store says how a round's key stands: beside the key's own folder, which is never written again."""
    return study.keys.folder(study.name, round).with_suffix(".status.json")


def restated(files: Mapping[str, bytes], log: list[events.Event], names: Mapping[str, str]) -> dict[str, bytes]:
    """A published folder's files with log, manifest, status, sums and banners as the present log has them, people by
    their pseudonyms (`names`). The signature goes, for it was another manifest's.

    Raises ValueError, KeyError, TypeError or Refused where they are no publication of this log's key.
    """
    content = json.loads(files["manifest.json"])
    found = standing_of(log, int(content["key"]["round"]), str(content["key"]["key_sha256"]))
    if found is None:
        raise KeyError("the log knows no such key")
    made = {name: data for name, data in files.items() if name not in (*publication.NOT_LISTED, publication.SIGNATURE)}
    listed = dict(content["files"])
    sound = {name for name, data in made.items() if name in listed and listed[name]["sha256"] == digest_bytes(data)}
    made["events.jsonl"] = events.as_jsonl(log, names)
    changed = {"events.jsonl"}
    for name in sorted(sound):
        if name.endswith(".html"):
            made[name] = with_standing(made[name], found)
            changed.add(name)
    if croissant.NAME in sound:
        made[croissant.NAME] = croissant.with_files(made[croissant.NAME], {name: made[name] for name in changed})
        changed.add(croissant.NAME)
    for name in changed:
        listed[name] = {"bytes": len(made[name]), "sha256": digest_bytes(made[name])}
    head, length = found.at
    content |= {"files": listed, "events": {"head": head, "length": length}, "status": publication.status_of(found)}
    whole = publication.sealed(made, publication.manifest_bytes(content), log)
    digests = {name: str(about["sha256"]) for name, about in listed.items()}
    digests |= {name: digest_bytes(whole[name]) for name in ("manifest.json", "status.json")}
    return {**whole, publication.SUMS: sums_bytes(digests)}

"""Signatures of a manifest by OpenSSH's `ssh-keygen -Y`, as a file beside it (docs/adr/0013).

Making and checking one belongs here; what a good signature says of a folder is anchors.py's. The program is called
with a list of arguments, never through a shell.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from relgrade_assets.errors import Fault, Refused

NAMESPACE = "relgrade"
PROGRAM = "ssh-keygen"
_PUBLIC = r"(?:ssh-ed25519|ssh-rsa|ecdsa-sha2-\S+|sk-\S+) [A-Za-z0-9+/=]+"
_KEY = re.compile(rf"^{_PUBLIC}", re.MULTILINE)
_SIGNERS = re.compile(rf"^[^#\s]\S* (?:\S+ )*{_PUBLIC}", re.MULTILINE)
_SECONDS = 300


def is_there() -> bool:
    """Whether the program is on PATH."""
    return shutil.which(PROGRAM) is not None


def knows_signers(text: str) -> bool:
    """Whether a file's text is public keys, or an allowed-signers file of OpenSSH."""
    return bool(_KEY.search(text) or _SIGNERS.search(text))


def sign(manifest: bytes, key: Path) -> bytes:
    """The signature of `manifest` by the private key in the file `key` (or, with its public half, by the agent).

    Raises Refused where the program is not there or refuses; its words are told.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "manifest.json"
        path.write_bytes(manifest)
        done = _run(["-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(path)], ask=True)
        made = path.with_name("manifest.json.sig")
        if done.returncode or not made.is_file():
            fault = Fault(str(key), done.stderr.strip()[:200] or "no signature", "a private key of OpenSSH")
            raise Refused("The manifest was not signed", [fault])
        return made.read_bytes()


def signer(manifest: bytes, signature: bytes, signers: str) -> str | None:
    """Who signed `manifest`, of those in `signers` (an allowed-signers file's text, or public keys); None where it is
    nobody's of them.

    Raises Refused where the program is not there.
    """
    listed = "".join(
        line + "\n" if not _KEY.match(line) else f"anchor {line}\n" for line in signers.splitlines() if line.strip()
    )
    with tempfile.TemporaryDirectory() as folder:
        allowed, signed = Path(folder) / "signers", Path(folder) / "signature"
        allowed.write_text(listed, encoding="utf-8")
        signed.write_bytes(signature)
        found = _run(["-Y", "find-principals", "-f", str(allowed), "-s", str(signed)])
        for who in [] if found.returncode else found.stdout.split("\n"):
            if who.strip():
                words = ["-Y", "verify", "-f", str(allowed), "-I", who.strip(), "-n", NAMESPACE, "-s", str(signed)]
                if _run(words, manifest).returncode == 0:
                    return who.strip()
    return None


def _run(words: list[str], given: bytes = b"", *, ask: bool = False) -> subprocess.CompletedProcess[str]:
    program = shutil.which(PROGRAM)
    if program is None:
        fault = Fault(PROGRAM, "not on PATH", "OpenSSH 8.1 or newer", "Install openssh-client.")
        raise Refused("Signatures need OpenSSH", [fault])
    done = subprocess.run(  # noqa: S603 - a list, and the program by its full path
        [program, *words],
        input=None if ask else given,  # signing may ask for the key's passphrase
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )

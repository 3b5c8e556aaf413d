"""Commands about tampering (P36): verify a published folder or a whole experiment, and sign a manifest.

Options and printing only; what is checked is io/verifying.py's and io/verifying_study.py's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from relgrade_assets.cli.app import NOT_PASSED, app, home, say, stop, warn
from relgrade_assets.errors import Fault, Refused
from relgrade_assets.io import anchors, publication, signing, verifying, verifying_study
from relgrade_assets.io.atomic import write_bytes
from relgrade_assets.io.standing import Standing
from relgrade_assets.io.study import open_study
from relgrade_assets.protocol.design import NAME


@app.command()
def verify(
    target: Annotated[
        str, typer.Argument(metavar="FOLDER|NAME", help="A published folder (a path with a /), or an experiment.")
    ],
    anchor: Annotated[
        list[str] | None,
        typer.Option(
            "--anchor",
            metavar="HASH|FILE",
            help="Known from elsewhere: the sha256 of key or manifest, the hash of an event, or a file: an earlier "
            "manifest.json or list of digests, or the public keys of who may sign. Can be given again.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Check every file against every other and compute again what can be; name each that was altered (P36)."""
    if NAME.fullmatch(target) and (target in home().names() or not Path(target).is_dir()):
        study = verifying_study.check_study(open_study(home(), target))
        folder = study.folder
        faults, standing, chain, keys = study.faults, study.standing, study.chain, study.keys
        checked, left = study.checked, study.left_out
        known = [key.frozen for key in keys]
    else:
        folder = verifying.check_folder(Path(target))
        faults, standing, chain, keys = folder.faults, folder.standing, folder.chain, (folder.key,)
        checked, left = folder.recomputed, folder.left_out
        known = [folder.key.found or folder.key.frozen]
    there = anchors.Anchorable(
        known,
        chain,
        folder.digests if folder else {},
        folder.manifest if folder else b"",
        folder.signature if folder else b"",
    )
    held = anchors.hold(anchor or (), there)
    faults = (*faults, *held.faults)
    stands = standing is None or standing.decides
    if as_json:
        said = {
            "target": target,
            "faults": [{"where": f.where, "found": f.found, "expected": f.expected, "mend": f.mend} for f in faults],
            "checked": checked,
            "not_checked": left,
            "anchors": held.said,
            "not_excluded": [] if held.covers_all else [anchors.NOT_EXCLUDED],
            "keys": [{"round": k.round, "sha256": k.found or None, "frozen": k.frozen or None} for k in keys],
            "standing": standing.record() if standing and not (faults and stands) else None,
            "standing_by_log": standing.record() if standing else None,
        }
        say(json.dumps(said, ensure_ascii=False))
    else:
        _tell(target, faults, checked, left, standing, keys, there, held)
    if faults or not stands:
        stop(NOT_PASSED)


def _tell(
    target: str,
    faults: Sequence[Fault],
    checked: Sequence[str],
    left: Sequence[str],
    standing: Standing | None,
    keys: Sequence[verifying.Key],
    there: anchors.Anchorable,
    held: anchors.Held,
) -> None:
    if faults:
        warn(f"{target} does not verify: {len(faults)} {'fault' if len(faults) == 1 else 'faults'}.")
        for fault in faults:
            warn(f"  {fault}")
    else:
        say(f"{target} verifies: {len(there.digests)} published files, {len(there.chain)} events.")
    for key in keys:
        say(f"  key    {key}")
    if there.chain:
        say(f"  log    {there.chain[-1]} ({len(there.chain)} events)")
    if standing is not None:
        stands = f"{standing.status} since {standing.since} (round {standing.round})"
        told = f"not known, since it does not verify; the log by itself says {stands}"
        say(f"  stands {told if faults and standing.decides else stands}")
        if standing.banner:
            say(standing.banner)
    say("Checked:" if checked else "Checked: nothing.")
    for what in checked:
        say(f"  {what}")
    if left:
        say("Not checked:")
        for what in left:
            say(f"  {what}")
    for what in held.said:
        say(f"Anchor: {what}.")
    if not held.covers_all:
        say(f"Not excluded: {anchors.NOT_EXCLUDED}. Only something known from elsewhere excludes it:")
        say("  --anchor with the manifest's sha256, an earlier manifest.json, or the public key of who signed it.")


@app.command()
def sign(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A published folder.")],
    key: Annotated[Path, typer.Option("--key", metavar="FILE", help="A private key that ssh-keygen made.")],
) -> None:
    """Sign the manifest of a published folder that verifies, so that others can tell that it is yours."""
    found = verifying.check_folder(folder)
    if found.faults:
        raise Refused(f"{folder} does not verify, so it was not signed", list(found.faults))
    path = folder / publication.SIGNATURE
    write_bytes(path, signing.sign(found.manifest, key))
    say(f"{path}")
    say(f"Others check it with `relgrade verify {folder}/ --anchor {key}.pub`, once they have your public key.")

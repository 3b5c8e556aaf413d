"""A study: one experiment with its design, its files, its tables, its ledger and its round, as they stand now.

Everything that a table is made from is reached through here, and what is loaded from here is proved to be current
first (P2): of this protocol,
and made from the inputs that are present.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path

import polars as pl

from relgrade_assets.errors import Fault, Notice, NotThere, Refused, Waiting
from relgrade_assets.io import events
from relgrade_assets.io.atomic import locked, write_bytes
from relgrade_assets.io.database import is_there
from relgrade_assets.io.experiment_file import read_design
from relgrade_assets.io.frames import Label, content_digest, read_label, read_table, write_table
from relgrade_assets.io.home import Home
from relgrade_assets.io.key_store import KeyStore
from relgrade_assets.io.ledger import Ledger
from relgrade_assets.io.readers.corpus import read_corpus
from relgrade_assets.io.readers.query_log import read_query_log
from relgrade_assets.io.text import Text, read_text
from relgrade_assets.protocol.canonical import digest
from relgrade_assets.protocol.design import Design
from relgrade_assets.schemas import SOURCES, TABLES

SPOT_CHECK_FILE = "spot-check.csv"
Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The time, in UTC; the one clock that a study reads unless it is given another."""
    return datetime.now(UTC)


@dataclass
class Study:
    """One experiment as it stands. Digests of files are computed once for each opened study."""

    home: Home
    name: str
    folder: Path
    design: Design
    clock: Clock = utc_now
    notices: list[Notice] = field(default_factory=list)
    salt: str = ""
    """What names in the event log are salted with; at random where empty. A replay has its own, for the same bytes."""

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, opened (and made where there is none) when it is first asked for."""
        return ledger_at(self.home.ledger_url)

    @property
    def has_ledger(self) -> bool:
        """Whether anything can have been recorded yet; asking makes no ledger."""
        return "ledger" in self.__dict__ or is_there(self.home.ledger_url)

    @cached_property
    def keys(self) -> KeyStore:
        """The write-once store of frozen keys."""
        return KeyStore(self.home.state)

    @cached_property
    def rubric(self) -> str:
        """The rubric's text. NotThere where the file is missing."""
        return self.rubric_file.data.decode()

    @cached_property
    def rubric_file(self) -> Text:
        """The rubric as it was read, with what was mended on the way. NotThere where the file is missing."""
        named = self.design.rubric
        self.named(named)
        read = read_text(self.file(named), name=named)
        if not read.data.strip():
            mend = "`relgrade init` puts one into a new experiment."
            raise Refused(f"{named} is empty", [Fault(named, "no text", "the grading instruction", mend)])
        return read

    @cached_property
    def protocol(self) -> str:
        """The protocol digest (P2)."""
        return self.design.protocol_digest(self.rubric)

    @property
    def log(self) -> list[events.Event]:
        """The experiment's event chain, as it stands now."""
        return events.read(self.ledger, self.name) if self.has_ledger else []

    @cached_property
    def round(self) -> int:
        """The round this study was opened in: the last opening in the event log (P4)."""
        return events.current_round(self.log)

    def file(self, named: str) -> Path:
        """A file that the design names; it never leads out of the experiment's folder, nor by a symbolic link."""
        path = self.folder / named
        try:
            inside = path.resolve().is_relative_to(self.folder.resolve())
        except (OSError, RuntimeError) as error:
            loop = [Fault(named, "a link that leads in a circle or nowhere", "a file inside the experiment's folder")]
            raise Refused(f"{named} can't be followed", loop) from error
        if not inside:
            raise Refused(
                f"{named} leads out of the experiment's folder",
                [Fault(named, "a path or link that leads outside", "a file inside", "Copy the file in.")],
            )
        return path

    @cached_property
    def secret(self) -> str:
        """What query ids are keyed with (P7): the seed, or where the log is private a random text that never leaves
        the store.
        """
        return self.known_secret or self._drawn(self._secret_file)

    @property
    def known_secret(self) -> str | None:
        """The secret, or None where it was not drawn yet; asking draws none."""
        if not self.design.private:
            return self.design.seed
        return self._secret_file.read_text() if self._secret_file.is_file() else None

    @cached_property
    def sheet_secret(self) -> str:
        """What the tokens of sheets are keyed with: random text that never leaves the store, in every study (P25)."""
        return self._drawn(self._secret_file.with_name(f"{self.name}.sheets"))

    @property
    def _secret_file(self) -> Path:
        return self.home.state / "secrets" / self.name

    def _drawn(self, path: Path) -> str:
        """A secret's text; drawn where there is none yet."""
        if not path.is_file():
            with locked(path.with_name(f"{path.name}.lock"), wait_seconds=10):
                if not path.is_file():
                    write_bytes(path, secrets.token_hex(32).encode(), mode=0o600)
        return path.read_text()

    # tables

    def path(self, table: str, round_: int | None = None) -> Path:
        """Where a table is stored; those of a round have a folder of their own, so that a failed round is never
        overwritten.
        """
        base = self.home.state / "tables" / self.name
        if TABLES[table].per_round:
            base = base / "rounds" / str(round_ or self.round)
        return base / f"{table}.parquet"

    def label(self, table: str) -> Label | None:
        """What the stored table says of itself; None where there is none. Read once by each opened study."""
        path = self.path(table)
        if path not in self._labels:
            self._labels[path] = read_label(path)
        return self._labels[path]

    @cached_property
    def _labels(self) -> dict[Path, Label | None]:
        return {}

    def store(self, table: str, frame: pl.DataFrame) -> Label:
        """Write a table with the digests of what is present, atomically."""
        return self.write(table, frame, self.label_for(table, frame))

    def label_for(self, table: str, frame: pl.DataFrame) -> Label:
        """What a table says of itself that this study made: of its inputs the digests that it has seen, which later
        changes of the files don't alter (`look_at`).
        """
        return Label(
            table,
            self.round if TABLES[table].per_round else None,
            self.protocol,
            {name: self.digest_of(name) or "" for name in TABLES[table].inputs},
            content_digest(frame),
        )

    def write(self, table: str, frame: pl.DataFrame, label: Label) -> Label:
        """Write a table with its label, atomically."""
        self.require_protocol_of_round(table)
        path = self.path(table, label.round)
        write_table(path, frame, label)
        self._labels[path] = label
        return label

    def load(self, table: str) -> pl.DataFrame:
        """A table's rows, proved current (P2): Refused by name, with both digests, where it is missing, of another
        protocol or of other inputs.
        """
        self.require_protocol_of_round(table)
        faults = self.outdated(table)
        if faults:
            raise Refused(f"The table {table} of {self.name} can't be used", faults, untouched="It was left as it is.")
        return read_table(self.path(table))

    def require_protocol_of_round(self, table: str | None = None) -> None:
        """P2: once a round has a grade, its protocol stands. Refused where design or rubric were changed since
        without `relgrade revise`.
        """
        opening = events.opening(self.log, self.round)
        if opening is None or (table is not None and not TABLES[table].per_round):
            return
        then = str(opening.body["protocol_digest"])
        if then != self.protocol:
            raise Refused(
                f"The protocol of {self.name} was changed after round {self.round} had its first grade",
                [
                    Fault(
                        "experiment.yaml or the rubric",
                        f"protocol {self.protocol[:12]}",
                        f"{then[:12]}, under which round {self.round} was opened",
                        f"Put it back, or open the next round: `relgrade revise {self.name} --cause ...` to grade all "
                        f"of it anew, `relgrade refresh {self.name}` where arms or inputs changed and grades carry.",
                    )
                ],
            )

    def outdated(self, table: str, seen: set[str] | None = None) -> list[Fault]:
        """Why a stored table does not hold for the protocol and inputs that are present; empty where it does. Looks
        all the way back.
        """
        seen = set() if seen is None else seen
        if table in seen:
            return []
        seen.add(table)
        label = self.label(table)
        again = f"Materialise it again (`relgrade run {self.name}`)."
        if label is None:
            return [Fault(table, "no such table yet", "it to be made", again.replace("again", "first"))]
        faults: list[Fault] = []
        if label.protocol != self.protocol:
            faults.append(
                Fault(table, f"protocol {label.protocol[:12]}", f"{self.protocol[:12]}, the present one", again)
            )
        if TABLES[table].per_round and label.round != self.round:
            faults.append(Fault(table, f"round {label.round}", f"{self.round}, the present one", again))
        for name in TABLES[table].inputs:
            then, now = label.inputs.get(name) or None, self.digest_of(name)
            if then != now:
                faults.append(Fault(table, f"made from {name} {_short(then)}", f"{_short(now)}, as it is now", again))
            if name in TABLES:
                faults += self.outdated(name, seen)
        return faults

    def digest_of(self, name: str) -> str | None:
        """The present digest of a source or a stored table; None where it is not there."""
        if name in SOURCES:
            return self.source_digest(name)
        label = self.label(name)
        return label.digest if label else None

    # sources

    def source_digest(self, name: str) -> str | None:
        """The present digest of an input that is observed, not made; None where its file is not there yet."""
        if name not in self._digests:
            self._digests[name] = self._source_digest(name)
        return self._digests[name]

    def look_at(self, *names: str) -> None:
        """Take the digests of inputs as they are at this moment. A table is labelled with what was seen before its
        inputs were read, so that a change while it is made leaves it outdated, never current by mistake (P2).
        """
        for name in names:
            self._digests.pop(name, None)
            with suppress(NotThere):
                self.digest_of(name)

    @cached_property
    def _digests(self) -> dict[str, str | None]:
        return {}

    def _source_digest(self, name: str) -> str | None:
        d, graders, auditor = self.design, self.design.key_graders, [self.design.auditor.name]
        match name:
            case "design":
                return digest(d.canonical())
            case "rubric":
                return digest(self.rubric)
            case "reviews":
                return self.ledger.reviews_digest(self.name)
            case "answers":
                return self.ledger.answers_digest(self.name, self.round, graders)
            case "audit_answers":
                return self.ledger.answers_digest(self.name, self.round, auditor)
            case "carried":
                return self._carried_digest()
            case "policy":
                return digest(d.refresh.model_dump(mode="json") if d.refresh else None)
            case "keys":
                return digest([[e.round, e.body["key_digest"]] for e in self.log if e.kind == "frozen"])
            case "events":
                return digest([[e.seq, e.hash] for e in self.log if e.kind == "opened"])
        each = [(named, _path_digest(self.file(named))) for named in self.source_files(name)]
        return None if any(d is None for _, d in each) else digest([list(pair) for pair in each])

    def source_files(self, name: str) -> list[str]:
        """The files that are one of the sources which are files, as the design names them."""
        d = self.design
        match name:
            case "query_log":
                return [d.query_log.file, *([d.strata.labelled] if d.strata.labelled else [])]
            case "corpus":
                return [d.corpus.path]
            case "run_files":
                return [a.run for a in d.arms]
            case "spot_check_file":
                return [SPOT_CHECK_FILE]
            case "intent_file":
                return [d.intents.file]
            case _:
                raise KeyError(name)

    def _carried_digest(self) -> str:
        """Of what earlier rounds' graders answered, where this round may take it (P30, P44)."""
        sources = events.carried_from(self.log, self.round)
        graders = self.design.key_graders
        each = [
            [s.round, s.rubric_digest, s.only_not_relevant, self.ledger.answers_digest(self.name, s.round, graders)]
            for s in sources
        ]
        opened = events.opening(self.log, self.round) if each else None
        return digest(["carried", each, [opened.body.get(k) for k in ("rerate", "rerate_in")] if opened else []])

    def named(self, *files: str) -> None:
        """Prove that files which the design names are there. NotThere, listing those that are not."""
        missing = [named for named in files if not self.file(named).exists()]
        if len(missing) == 1:
            raise NotThere(Waiting(f"the file {missing[0]} is not there yet"))
        if missing:
            absent = f"not yet: {', '.join(missing)}"
            raise NotThere(Waiting("files are there", len(files) - len(missing), len(files), (absent,)))

    @cached_property
    def corpus(self) -> pl.DataFrame:
        """The corpus: chunk_id, header, text. NotThere where it is missing."""
        c = self.design.corpus
        self.named(c.path)
        read = read_corpus(
            self.file(c.path), name=c.path, format=c.format, chunk_id=c.chunk_id, header=c.header, text=c.text
        )
        self.notices += read.notices
        return read.frame

    def query_log(self) -> pl.DataFrame:
        """The log's rows as the reader gives them. NotThere where it is missing."""
        q = self.design.query_log
        self.named(q.file)
        read = read_query_log(self.file(q.file), name=q.file, format=q.format, columns=q.columns.model_dump())
        self.notices += read.notices
        return read.frame

    # time

    def happened(self, kind: str, body: dict[str, object]) -> None:
        """Append an event to the log, unless it stands there already."""
        events.append(self.ledger, self.name, kind, body, self.clock(), once=True, salt=self.salt)

    def lock(self, kind: str, digest: str) -> None:
        """Log that a table of the present round is locked by this digest (P16, P26), unless it was so last: one that
        was changed and put back is locked again.
        """
        earlier = [e.body["digest"] for e in self.log if e.kind == kind and e.round == self.round]
        if not earlier or earlier[-1] != digest:
            body = {"round": self.round, "digest": digest}
            events.append(self.ledger, self.name, kind, body, self.clock(), once=digest not in earlier)


def open_study(home: Home, name: str, *, clock: Clock = utc_now) -> Study:
    """Read the design of an experiment. Refused with every fault of the design; nothing is made."""
    folder = home.folder(name)
    design = read_design(folder / "experiment.yaml", name=f"data/experiments/{name}/experiment.yaml", folder_name=name)
    return Study(home, name, folder, design, clock)


@lru_cache(maxsize=8)
def ledger_at(url: str) -> Ledger:
    """The ledger behind a URL, opened and migrated once a process."""
    return Ledger(url)


def _short(value: str | None) -> str:
    return "that was not there" if not value else value[:12]


def _path_digest(path: Path) -> str | None:
    """sha256 of a file, or of the sorted names and digests of the files in a folder; None where there is nothing."""
    if path.is_dir():
        each = [(p.relative_to(path).as_posix(), _path_digest(p)) for p in sorted(path.rglob("*")) if p.is_file()]
        return digest([list(pair) for pair in each])
    if not path.is_file():
        return None
    seen = path.stat()
    return _file_digest(path, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)


@lru_cache(maxsize=256)
def _file_digest(path: Path, *_unchanged: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

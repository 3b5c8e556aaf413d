"""The type of a query (P8): two ordered rules on its raw form, and a small classifier for the rest.

What a type means for strata is `strata.py`'s. scikit-learn is imported only where a classifier is trained.
"""

from __future__ import annotations

import re

import polars as pl

from relgrade_assets.errors import Fault, Refused
from relgrade_assets.methods.normalise import normalised

ERROR_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:[A-Z0-9]+[_-])*(?:ERR|ERRNO|ERROR|EXCEPTION|FAIL|FAILED|FAILURE|FATAL|PANIC|ABORT|ABORTED|DENIED|REFUSED|TIMEOUT|TIMEDOUT|OVERFLOW)(?:[_-][A-Z0-9]+)*"
    r"|E(?:ACCES|ADDRINUSE|AGAIN|BADF|BUSY|CONNABORTED|CONNREFUSED|CONNRESET|EXIST|HOSTUNREACH|INTR|INVAL|IO|ISDIR|MFILE|NOBUFS|NOENT|NOMEM|NOSPC|NOTDIR"
    r"|NOTEMPTY|NOTFOUND|NOTSUP|PERM|PIPE|PROTO|RANGE|ROFS|RESOLVE|SRCH|TIMEDOUT|XDEV)"
    r"|SIG(?:ABRT|BUS|FPE|HUP|ILL|INT|KILL|PIPE|SEGV|TERM|TRAP)"
    r"|[A-Z]{2,5}-?[0-9]{4,6}"
    r")(?![A-Za-z0-9])"
)
"""An upper-case error token: a word of failure alone or joined by `_` or `-` (ERR_MODULE_NOT_FOUND), an errno, a
signal, or a code of letters and four to six digits (ORA-00942, TS2345)."""

STACK_FRAME = re.compile(
    r"Traceback \(most recent call last\)"
    r'|File "[^"]+", line \d+'
    r"|(?:^|\s)at [\w$.<>/]+ ?\([^)]*\)"
    r"|[\w/\\.-]+\.(?:py|js|ts|jsx|tsx|java|kt|go|rs|rb|php|cs|c|cc|cpp|h|swift|scala):\d+"
    r"|#\d+\s+0x[0-9a-fA-F]+"
)
"""A line of a stack trace: Python, Java, JavaScript and their like, `file.ext:line`, or gdb."""

VERBS = frozenset(
    """
    add adding allow apply ask avoid be bind block book build building buy call calling can cancel change changing
    check choose clean clear clone close combine compare compile compute configure connect convert converting copy
    count create creating cut debug define delete deploy detect did disable do does download draw edit enable ensure
    escape exclude export extend extract filter find finding fix fixing format generate get getting give group
    handle has have hide ignore implement import improve include increase insert install installing is join keep
    learn limit list load log login make making manage map measure merge migrate mock move open opening order
    override parse pass pay plot prevent print put query read reading receive redirect reduce refund register reload
    remove removing rename render replace request reset resize restart restore retrieve return run running save
    search select sell send sending serialize set setting setup share show sign skip solve sort sorting split start
    stop store stream submit subscribe swap switch sync test track train transfer transform translate unsubscribe
    update updating upgrade upload use using validate verify view wait was watch work works write writing
    """.split()  # noqa: SIM905
)
"""English verbs as they stand in queries. What is not listed counts as no verb: a short query in another language is
taken as navigational, and the spot check shows how often that is wrong."""


def rule_type(raw: str) -> str | None:
    """P8's ordered rules on the raw form: `error`, else `navigational`, else null (the classifier decides)."""
    if ERROR_TOKEN.search(raw) or STACK_FRAME.search(raw):
        return "error"
    tokens = raw.split()
    if len(tokens) < 3 and not any(t.strip(".,:;!?\"'()").lower() in VERBS for t in tokens):
        return "navigational"
    return None


def classified(texts: list[str], labelled: pl.DataFrame | None) -> list[str]:
    """Types by TF-IDF of words and characters under logistic regression; the order of `labelled` has no say."""
    examples = _examples(labelled)
    if not texts:
        return []
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline, make_union

    model = make_pipeline(
        make_union(
            TfidfVectorizer(lowercase=False, token_pattern=r"\S+", ngram_range=(1, 2)),  # noqa: S106
            TfidfVectorizer(lowercase=False, analyzer="char_wb", ngram_range=(2, 4)),
        ),
        LogisticRegression(C=10.0, max_iter=2000),
    )
    model.fit([text for text, _ in examples], [type_ for _, type_ in examples])
    # Rounded, with ties to the first type by name, so that the last bits of a machine's arithmetic do not decide.
    best = model.predict_proba(texts).round(6).argmax(axis=1)
    return [str(model.classes_[i]) for i in best]


def _examples(labelled: pl.DataFrame | None) -> list[tuple[str, str]]:
    where = "strata.labelled"
    rows = (
        []
        if labelled is None
        else labelled.select(normalised(pl.col("query")), "type").unique().sort("query", "type").rows()
    )
    empty = sum(1 for text, type_ in rows if not text or not type_)
    if empty:
        raise Refused(
            "Labelled examples lack a query or a type", [Fault(where, f"{empty} such examples", "both in every row")]
        )
    types: dict[str, list[str]] = {}
    for text, type_ in rows:
        types.setdefault(text, []).append(type_)
    faults = [
        Fault(where, f"{text!r} as {' and '.join(found)}", "one type for one query")
        for text, found in types.items()
        if len(found) > 1
    ]
    if faults:
        raise Refused("Labelled examples contradict each other", faults)
    if len({type_ for _, type_ in rows}) < 2:
        raise Refused(
            "Labelled examples can't train the classifier",
            [Fault(where, f"{len(rows)} examples", "examples of at least two types")],
        )
    return rows

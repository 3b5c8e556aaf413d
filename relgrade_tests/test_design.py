"""The design as a model: what it refuses (P1, P5, P8, P9, P28), its digest (P2), and its deviations (P3)."""

from __future__ import annotations

import copy
import re
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from relgrade_assets.protocol.coherence import GATE_DEFAULTS, KAPPA_FLOOR
from relgrade_assets.protocol.design import PACE, Design
from relgrade_assets.protocol.deviations import MEANING, DeviationCode
from relgrade_assets.protocol.scale import NAMED, Scale

RUBRIC = "# Rubric\n\n2 answers it\n"
REASON = "for the sake of this test"
MINIMAL: dict[str, Any] = {
    "relgrade": 1,
    "name": "study",
    "title": "A study",
    "seed": "s1",
    "scale": "0-2",
    "query_log": {"file": "log.csv"},
    "strata": {
        "parts": [
            {"name": "head", "target": 50, "tiers": ["head"]},
            {"name": "rest", "target": 50, "tiers": ["torso", "tail"]},
        ]
    },
    "corpus": {"path": "corpus.jsonl"},
    "arms": [{"name": "a", "family": "fa", "run": "a.trec"}, {"name": "b", "family": "fb", "run": "b.trec"}],
    "intents": {"file": "intents.csv"},
    "graders": [{"name": "g", "family": "fg"}],
    "auditor": {"name": "h", "family": "fh"},
}


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """MINIMAL with values put at dotted paths."""
    whole: dict[str, Any] = copy.deepcopy(MINIMAL)
    for path, value in changes.items():
        place: Any = whole
        *steps, last = path.split(".")
        for step in steps:
            place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
        place[int(last) if isinstance(place, list) else last] = value
    return whole


def design(changes: dict[str, Any] | None = None) -> Design:
    return Design.model_validate(changed(changes or {}))


def takes(*shares: object) -> dict[str, Any]:
    return {"graders": [{"name": f"g{i}", "family": "fg", "takes": share} for i, share in enumerate(shares)]}


def message(changes: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        design(changes)
    return str(caught.value)


def digest(changes: dict[str, Any] | None = None, rubric: str = RUBRIC) -> str:
    return design(changes).protocol_digest(rubric)


# -- P2: the protocol digest ------------------------------------------------------------------------------------------


def test_digest_is_the_same_with_defaults_written_out_or_left_out() -> None:
    """P2: the canonical form writes every default out."""
    written = design().canonical()
    assert Design.model_validate(written).protocol_digest(RUBRIC) == digest()
    assert written["depth"] == 20
    assert written["gates"] == {**GATE_DEFAULTS, "judge_on": "point"}
    assert "audit" not in MINIMAL and written["audit"] == {"share": 0.1, "at_least": 10, "random_too": False}


def test_digest_is_the_same_however_a_value_is_written() -> None:
    """P2: whole numbers where shares stand, a seed as a number, a scale by name or written out, keys in any order."""
    assert digest({"gates.binary_kappa": 1}) == digest({"gates.binary_kappa": 1.0})
    assert digest({"seed": 7}) == digest({"seed": "7"})
    assert digest({"scale": NAMED["0-2"].model_dump(mode="json")}) == digest()
    backwards = Design.model_validate(dict(reversed(list(MINIMAL.items()))))
    assert backwards.protocol_digest(RUBRIC) == digest()


def test_digest_is_pinned() -> None:
    """P2: another digest for the same bytes would orphan every table and key there is. Change it knowingly."""
    assert digest() == "d102b94cfa6cc6bfbce74e9a64260bec07c01e37465678a43ade99389eee2ecc"


@pytest.mark.parametrize("rubric", ["\ufeff" + RUBRIC, RUBRIC.replace("\n", "\r\n"), RUBRIC.replace("\n", "\r")])
def test_digest_ignores_byte_order_mark_and_line_ends_of_the_rubric(rubric: str) -> None:
    assert digest(rubric=rubric) == digest()


@pytest.mark.parametrize("rubric", ["", RUBRIC + "\n", RUBRIC.upper(), RUBRIC.replace(" ", "  "), "x" + RUBRIC])
def test_digest_covers_every_other_change_of_the_rubric(rubric: str) -> None:
    assert digest(rubric=rubric) != digest()


BY_TYPE: dict[str, Any] = {
    "query_log.columns.type": "t",
    "strata.by": "type",
    "strata.parts": [{"name": "head", "target": 50, "types": ["x"]}, {"name": "rest", "target": 50, "types": ["y"]}],
}
TWO = [{"name": "g", "family": "fg"}, {"name": "i", "family": "fg"}]
SHARED: dict[str, Any] = {"strata.parts.0.share": 0.5, "strata.parts.1.share": 0.5}
GRADES = [{"grade": 0, "label": "no", "cue": "not"}, {"grade": 1, "label": "yes", "cue": "is"}]
OWN = {"scale": {"grades": GRADES, "relevant_from": 1, "gain": "linear"}}


def admitted(code: str, changes: dict[str, Any]) -> dict[str, Any]:
    return {**changes, "deviations": [{"code": code, "reason": REASON}]}


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "name": ({}, {"name": "other"}),
    "title": ({}, {"title": "Other"}),
    "seed": ({}, {"seed": "s2"}),
    "private": ({}, {"private": True}),
    "rubric": ({}, {"rubric": "other.md"}),
    "depth": ({}, {"depth": 30}),
    "combine": ({}, {"combine": "median_low"}),
    "measures": ({}, {"measures": ["nDCG@10"]}),
    "headline": ({}, {"headline": "AP"}),
    "estimand": ({}, {"estimand": "distinct_queries"}),
    "equivalence_margin": ({}, {"equivalence_margin": 0.02}),
    "scale.grades.grade": ({"scale": "0-2"}, {"scale": "0-3"}),
    "scale.grades.label": (OWN, {**OWN, "scale.grades": [{**GRADES[0], "label": "x"}, GRADES[1]]}),
    "scale.grades.cue": (OWN, {**OWN, "scale.grades": [{**GRADES[0], "cue": "x"}, GRADES[1]]}),
    "scale.relevant_from": (
        {"scale": NAMED["0-2"].model_dump()},
        {"scale": {**NAMED["0-2"].model_dump(), "relevant_from": 2}},
    ),
    "scale.gain": (OWN, {**OWN, "scale.gain": "exponential"}),
    "query_log.file": ({}, {"query_log.file": "other.csv"}),
    "query_log.format": ({}, {"query_log.format": "csv"}),
    "query_log.window_days": ({}, {"query_log.window_days": 30}),
    "query_log.authored": (
        admitted("authored_queries", {}),
        admitted("authored_queries", {"query_log.authored": True}),
    ),
    **{
        f"query_log.columns.{key}": ({}, {f"query_log.columns.{key}": "c"})
        for key in ("query", "query_id", "count", "timestamp", "results", "clicks", "type")
    },
    "strata.by": (
        {**BY_TYPE, "strata.parts": [{"name": "all", "target": 1, "types": ["x"]}]},
        {
            **BY_TYPE,
            "strata.by": "both",
            "strata.parts": [{"name": "all", "target": 1, "types": ["x"], "tiers": ["head", "torso", "tail"]}],
        },
    ),
    "strata.type_from": ({}, {"strata.type_from": "classifier"}),
    "strata.labelled": ({}, {"strata.labelled": "types.csv"}),
    "strata.head_traffic": ({}, {"strata.head_traffic": 0.7}),
    "strata.head_at_most": ({}, {"strata.head_at_most": 400}),
    "strata.torso_to_rank": ({}, {"strata.torso_to_rank": 4000}),
    "strata.weight_cap": ({}, {"strata.weight_cap": 40}),
    "strata.parts.name": ({}, {"strata.parts.0.name": "top"}),
    "strata.parts.target": ({}, {"strata.parts.0.target": 51}),
    "strata.parts.share": (SHARED, {"strata.parts.0.share": 0.4, "strata.parts.1.share": 0.6}),
    "strata.parts.tiers": ({}, {"strata.parts.0.tiers": ["head", "torso"], "strata.parts.1.tiers": ["tail"]}),
    "strata.parts.types": (BY_TYPE, {**BY_TYPE, "strata.parts.0.types": ["z"]}),
    "corpus.path": ({}, {"corpus.path": "other"}),
    "corpus.format": ({}, {"corpus.format": "csv"}),
    "corpus.chunk_id": ({}, {"corpus.chunk_id": "id"}),
    "corpus.header": ({}, {"corpus.header": None}),
    "corpus.text": ({}, {"corpus.text": "body"}),
    "arms.name": ({}, {"arms.0.name": "c"}),
    "arms.family": ({}, {"arms.0.family": "fc"}),
    "arms.run": ({}, {"arms.0.run": "c.trec"}),
    "arms.format": ({}, {"arms.0.format": "csv"}),
    "arms.score_order": ({}, {"arms.0.score_order": "ascending"}),
    "arms.order": ({}, {"arms.0.order": "as_listed"}),
    "arms.duplicates": ({}, {"arms.0.duplicates": "keep_first"}),
    **{
        f"arms.index.{key}": ({"arms.0.index": {"mapping": "x"}}, {"arms.0.index": {"mapping": "x", key: "v2"}})
        for key in ("mapping", "analyser", "embedding")
    },
    "intents.file": ({}, {"intents.file": "other.csv"}),
    "graders.name": ({}, {"graders.0.name": "i"}),
    "graders.family": ({}, {"graders.0.family": "fi"}),
    "graders.kind": ({}, {"graders.0.kind": "human"}),
    "graders.takes": ({"graders": TWO}, {"graders": [{**TWO[0], "takes": 0.5}, TWO[1]]}),
    "auditor.name": ({}, {"auditor.name": "i"}),
    "auditor.family": ({}, {"auditor.family": "fi"}),
    "auditor.kind": ({}, {"auditor.kind": "human"}),
    **{
        f"{who}.run.{key}": ({f"{at}.run": {"command": "claude"}}, {f"{at}.run": {"command": "claude", key: value}})
        for who, at in (("graders", "graders.0"), ("auditor", "auditor"))
        for key, value in {
            "command": ["claude"],
            "model": "m",
            "chunks_a_prompt": 4,
            "allow_environment": ["SOME_API_KEY"],
        }.items()
    },
    "audit.share": ({}, {"audit.share": 0.2}),
    "audit.at_least": ({}, {"audit.at_least": 11}),
    "audit.random_too": ({}, {"audit.random_too": True}),
    **{
        f"gates.{gate}": ({}, {f"gates.{gate}": value})
        for gate, value in {"weighted_kappa": 0.8, "binary_kappa": 0.9, "disagreement": 0.05, "two_step": 0.01}.items()
    },
    "gates.judge_on": ({}, {"gates.judge_on": "worst_end"}),
    "deviations.code": (admitted("one_arm", {}), admitted("reused_audit", {})),
    "deviations.reason": (admitted("one_arm", {}), {"deviations": [{"code": "one_arm", "reason": REASON + "!"}]}),
}
"""For every key of the design, two designs that differ in it."""


@pytest.mark.parametrize("key", CHANGES)
def test_digest_covers_every_key(key: str) -> None:
    """P2: everything that could change a number changes the digest."""
    before, after = CHANGES[key]
    assert digest(before) != digest(after)


def test_changes_name_every_key_of_the_design() -> None:
    """Bites when a key is added without a line above (`relgrade` has one value only)."""
    pace = {f"{who}.run.{key}" for who in ("graders", "auditor") for key in PACE}
    apart = {key for key in leaves(Design) if key.startswith(("publication.", "refresh."))}
    assert set(CHANGES) == set(leaves(Design)) - {"relgrade"} - pace - apart


@pytest.mark.parametrize("value", [{}, {"act_on": ["new_arm", "rubric"]}, {"rerate": 50}, {"rejudge": "all"}])
def test_digest_leaves_out_how_a_key_is_kept_up(value: dict[str, Any]) -> None:
    """P2, P43: `refresh` may be changed at any time; an arm without `index` is as it was before there was one."""
    assert digest({"refresh": value}) == digest()
    assert digest({"arms.0.index": None}) == digest() != digest({"arms.0.index": {"embedding": "v1"}})


@pytest.mark.parametrize(
    ("key", "value"), {"concurrency": 9, "timeout_seconds": 9, "attempts": 9, "pause_seconds": 9.5}.items()
)
def test_pace_of_a_command_is_no_part_of_the_digest(key: str, value: float) -> None:
    """P2, P21: slowing an agent down after the first grade takes no new round; no run at all is no key at all."""
    run = {"command": ["x", "-y"], "model": "m"}
    assert digest({"graders.0.run": run}) == digest({"graders.0.run": {**run, key: value}}) != digest()
    assert "run" not in str(design().canonical()["graders"])
    assert design({"graders.0.run": run}).run_of("g") is not None
    assert design({"graders.0.run": run}).run_of("h") is None


ASKED = {"index": "chunks-1", "query": {"bool": {"should": [{"match": {"text": "{{query}}"}}]}}}

NO_INDEX = ("", "Up", "_a", "-a", "a b", "a*", "a,b", "a/b")


def test_what_a_publication_says_is_no_part_of_the_digest() -> None:
    """P2, P42: it changes no number; a licence may be chosen after the first grade."""
    said = {"license": "CC-BY-4.0", "url": "https://example.org/k", "creators": ["We"], "cite_as": "We, 2026"}
    assert digest({"publication": {**said, "rank_eval": ASKED}}) == digest()
    assert "publication" not in design({"publication": said}).canonical()


@pytest.mark.parametrize(
    ("publication", "said"),
    [
        ({"rank_eval": {**ASKED, "query": {"match": {"text": "cats"}}}}, "has no {{query}}"),
        *(({"rank_eval": {**ASKED, "index": name}}, "index") for name in NO_INDEX),
        ({"rank_eval": {"index": "a"}}, "query"),
        ({"url": "file:///etc"}, "url"),
        ({"license": "a\nb"}, "license"),
        ({"licence": "x"}, "licence"),
    ],
)
def test_a_publication_that_is_none_is_refused(publication: dict[str, Any], said: str) -> None:
    """P1, P42."""
    with pytest.raises(ValidationError, match=said):
        design({"publication": publication})


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ({"command": "gpt"}, "command"),
        ({"command": []}, "command"),
        ({"command": ["x", ""]}, "command"),
        ({"command": "claude", "chunks_a_prompt": 6}, "less than or equal to 5"),
        ({"command": "claude", "concurrency": 0}, "greater than or equal to 1"),
        ({"command": "claude", "model": "--dangerous"}, "model"),
        ({"command": "claude", "allow_environment": ["A B"]}, "allow_environment"),
        ({"command": "claude", "shell": True}, "shell"),
        ({"model": "m"}, "command"),
    ],
)
def test_a_run_that_is_none_is_refused(run: dict[str, Any], said: str) -> None:
    """P1, P21."""
    with pytest.raises(ValidationError, match=said):
        design({"graders.0.run": run})


def test_people_are_not_run() -> None:
    """P21."""
    with pytest.raises(ValidationError, match="only a model is run by a command"):
        design({"auditor.kind": "human", "auditor.run": {"command": "claude"}})


def leaves(model: type[BaseModel], at: str = "") -> list[str]:
    found: list[str] = []
    for key, field in model.model_fields.items():
        inner = [a for a in parts(field.annotation) if isinstance(a, type) and issubclass(a, BaseModel)]
        found += leaves(inner[0], f"{at}{key}.") if inner else [f"{at}{key}"]
    return found


def parts(annotation: Any) -> list[Any]:
    args = get_args(annotation)
    return [leaf for a in args for leaf in parts(a)] if args else [annotation]


def test_order_of_listed_things_counts() -> None:
    """P2, P30: `first_listed` depends on the order of graders, so order is part of the protocol."""
    two = [{"name": "g", "family": "fg"}, {"name": "k", "family": "fk"}]
    assert digest({"graders": two}) != digest({"graders": two[::-1]})


# -- P3: deviations ---------------------------------------------------------------------------------------------------

FOUR = [{"name": f"a{i}", "family": f"f{i}", "run": f"{i}.trec"} for i in range(4)]
DEPARTURES: dict[str, tuple[str, dict[str, Any], str]] = {
    "auditor and grader": ("shared_families", {"auditor.family": "fg"}, "graders.0.family"),
    "auditor and arm": ("shared_families", {"auditor.family": "fb"}, "arms.1.family"),
    "grader and arm": ("shared_families", {"graders.0.family": "fa"}, "arms.0.family"),
    "one arm": ("one_arm", {"arms": MINIMAL["arms"][:1]}, "arms"),
    "depth 9": ("shallow_depth", {"depth": 9}, "depth"),
    "depth 19, four arms": ("shallow_depth", {"depth": 19, "arms": FOUR}, "depth"),
    "audit share": ("small_audit", {"audit.share": 0.09}, "audit"),
    "audit at least": ("small_audit", {"audit.at_least": 9}, "audit"),
    "authored": ("authored_queries", {"query_log.authored": True}, "query_log.authored"),
    "weighted kappa": ("gate_lowered", {"gates.weighted_kappa": 0.74}, "gates.weighted_kappa"),
    "binary kappa": ("gate_lowered", {"gates.binary_kappa": 0.79}, "gates.binary_kappa"),
    "disagreement": ("gate_lowered", {"gates.disagreement": 0.11}, "gates.disagreement"),
    "two step": ("gate_lowered", {"gates.two_step": 0.03}, "gates.two_step"),
}


@pytest.mark.parametrize("case", DEPARTURES)
def test_departure_fails_undeclared_and_passes_declared(case: str) -> None:
    """P3: and the refusal names the key and the code to declare; another code doesn't serve."""
    code, changes, key = DEPARTURES[case]
    assert f"{key}\t" in message(changes)
    assert f"declare {code!r} under deviations" in message(changes)
    assert design(admitted(code, changes)).declared(code)  # type: ignore[arg-type]
    assert f"declare {code!r}" in message(admitted("collapsed_stratum", changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"depth": 10},
        {"depth": 20, "arms": FOUR},
        {"depth": 10, "arms": FOUR[:3]},
        {"audit.share": 0.10, "audit.at_least": 10},
        {"gates.weighted_kappa": 0.75, "gates.disagreement": 0.10, "gates.two_step": 0.02, "gates.binary_kappa": 0.80},
        {"gates.weighted_kappa": 1, "gates.disagreement": 0},
        {"arms.0.family": "fb"},
        {"graders": [{"name": "g", "family": "fg"}, {"name": "k", "family": "fg"}]},
    ],
)
def test_nothing_is_to_be_declared_at_the_limit(changes: dict[str, Any]) -> None:
    """P3: exactly at a limit is no departure; arms may share a family with each other, and so may graders (P26)."""
    assert design(changes).deviations == ()


def test_every_shared_family_is_told() -> None:
    """P26: graders, auditor and arms are pairwise different; each culprit has its own key."""
    text = message({"auditor.family": "f", "graders.0.family": "f", "arms.1.family": "f"})
    assert "graders.0.family\tgrader 'g' and the auditor are both of family 'f'" in text
    assert "arms.1.family\tarm 'b' and the auditor are both of family 'f'" in text
    assert "arms.0.family" not in text


def test_code_that_is_not_on_the_list_is_refused() -> None:
    """P3: there is no key without an audit, so no code admits one."""
    assert "deviations.0.code" in message({"deviations": [{"code": "no_audit", "reason": REASON}]})


def test_deviation_needs_a_reason_and_stands_once() -> None:
    assert "deviations.0.reason" in message({"deviations": [{"code": "one_arm", "reason": "short"}]})
    assert "'one_arm' stands 2 times" in message({"deviations": [{"code": "one_arm", "reason": REASON}] * 2})


def test_every_code_of_p3_is_there_with_its_rule() -> None:
    named = (
        "shared_families one_arm small_audit shallow_depth authored_queries imported_without_reasons "
        "unreviewed_intents gate_lowered unrateable_share reused_audit"
    )
    assert set(named.split()) <= set(get_args(DeviationCode)) == set(MEANING)
    assert all(re.match(r"(P\d+|formats\.md)[,:]", meaning) for meaning in MEANING.values())


# -- P5: scales -------------------------------------------------------------------------------------------------------


def test_named_scales_as_p5_says() -> None:
    assert {name: [g.label for g in s.grades] for name, s in NAMED.items()} == {
        "0-2": ["doesn't help", "helps", "answers it"],
        "0-3": ["poor", "fair", "good", "perfect"],
        "binary": ["no", "yes"],
    }
    for name, scale in NAMED.items():
        assert design({"scale": name}).scale == scale
        assert (scale.relevant_from, scale.gain, scale.top) == (1, "exponential", len(scale.grades) - 1)
        assert scale.labels == list(range(scale.top + 1))


def test_declared_scale() -> None:
    scale = design({"scale": {"grades": GRADES, "gain": "linear"}}).scale
    assert isinstance(scale, Scale)
    assert (scale.labels, scale.gain, scale.relevant_from) == ([0, 1], "linear", 1)


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        ("0-4", "no scale is called '0-4'; there are 0-2, 0-3, binary"),
        ({"grades": [GRADES[0], {**GRADES[1], "grade": 2}]}, "without a gap or repeat, not [0, 2]"),
        ({"grades": [GRADES[1], {**GRADES[1], "grade": 2}]}, "without a gap or repeat, not [1, 2]"),
        ({"grades": [GRADES[0], GRADES[0]]}, "without a gap or repeat, not [0, 0]"),
        ({"grades": GRADES[::-1]}, "without a gap or repeat, not [1, 0]"),
        ({"grades": GRADES[:1]}, "at least 2"),
        ({"grades": GRADES, "relevant_from": 2}, "relevant_from 2 is above the top grade 1"),
        ({"grades": GRADES, "relevant_from": 0}, "scale.relevant_from"),
        ({"grades": [{"grade": 0, "label": "no"}, GRADES[1]]}, "scale.grades.0.cue"),
        ({"grades": [{**GRADES[0], "grade": "0"}, GRADES[1]]}, "valid integer"),
        ({"grades": [{**GRADES[0], "grade": False}, GRADES[1]]}, "valid integer"),
        ({"grades": GRADES, "gain": "cubic"}, "scale.gain"),
        (2, "scale"),
    ],
)
def test_faulty_scale_is_refused(scale: object, words: str) -> None:
    assert words in message({"scale": scale})


# -- P28: gates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gate", ["weighted_kappa", "binary_kappa"])
def test_kappa_floor_holds_though_declared(gate: str) -> None:
    """P28: below 0.60 is refused, whatever is declared; at it a declared gate stands."""
    assert KAPPA_FLOOR == 0.60
    assert "0.59 is below 0.6, under which no key is made" in message(admitted("gate_lowered", {f"gates.{gate}": 0.59}))
    assert design(admitted("gate_lowered", {f"gates.{gate}": 0.60}))


@pytest.mark.parametrize("gate", GATE_DEFAULTS)
@pytest.mark.parametrize("value", [-0.01, 1.01, float("nan"), float("inf"), True, "0.9", None])
def test_gate_out_of_range_is_refused(gate: str, value: object) -> None:
    """P1."""
    assert f"gates.{gate}" in message({f"gates.{gate}": value})


def test_defaults_of_gates_are_p28s() -> None:
    expected = {"weighted_kappa": 0.75, "binary_kappa": 0.80, "disagreement": 0.10, "two_step": 0.02}
    assert expected == GATE_DEFAULTS == design().gates.model_dump(exclude={"judge_on"})


# -- P1, P8, P9: what fits together -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"strata.parts.0.share": 0.5}, "parts.1.share\tstratum 'rest' has a target and no share"),
        ({"strata.parts.0.share": 0.5, "strata.parts.1.share": 0.5 + 2e-9}, "must sum to 1 within 1e-9"),
        ({"strata.parts.1.name": "head"}, "parts\tthe name 'head' stands 2 times"),
        ({"strata.parts.1.tiers": ["tail"]}, "parts\tno stratum holds the tier 'torso'"),
        ({"strata.parts.0.tiers": ["head", "tail"]}, "parts\t'tail' falls into 2 strata"),
        ({"strata.parts.0.tiers": []}, "parts.0.tiers\tstratum 'head' names no tiers"),
        ({"strata.parts.0.types": ["x"]}, "parts.0.types\tstratum 'head' names types, but strata are cut by tier"),
        ({**BY_TYPE, "query_log.columns.type": None}, "query_log.columns.type\tstrata are cut by the log's own type"),
        ({**BY_TYPE, "strata.type_from": "classifier"}, "labelled\tthe classifier needs a CSV"),
        ({"graders.0.takes": 0.5}, "graders\twhat graders take sums to 0.5 (g 0.5); it must sum to 1 or more"),
        (takes(0.3, 0.3, 0.3), "graders\twhat graders take sums to 0.9 (g0 0.3, g1 0.3, g2 0.3); it must sum to 1"),
        ({"headline": "AP@7"}, "headline\t'AP@7' is not among measures"),
        ({"auditor.name": "g"}, "graders\tthe name 'g' stands 2 times"),
        ({"arms.1.name": "a"}, "arms\tthe name 'a' stands 2 times"),
        ({"measures": ["nDCG@10", "nDCG@10"]}, "measures\tthe name 'nDCG@10' stands 2 times"),
    ],
)
def test_keys_that_do_not_fit_together(changes: dict[str, Any], words: str) -> None:
    assert words in message(changes)


@pytest.mark.parametrize("shares", [(0.1, 0.2, 0.7), (0.6, 0.6), ("all", 0.1), (0.3333333333,) * 3])
def test_graders_who_cover_the_queries_pass(shares: tuple[object, ...]) -> None:
    """P1, P30: exactly 1 of shares that floats don't sum to 1, more, one who takes all, thirds within 1e-9."""
    assert design(takes(*shares))


def test_shares_within_the_tolerance_pass() -> None:
    """P9: 1e-9, for shares that were rounded."""
    assert design({"strata.parts.0.share": 0.5, "strata.parts.1.share": 0.5 + 5e-10})


@pytest.mark.parametrize(
    "key", ["rubric", "query_log.file", "strata.labelled", "corpus.path", "arms.0.run", "intents.file"]
)
@pytest.mark.parametrize("path", ["../x", "a/../../x", "/x", "~/x", "a\\..\\x", "\\x", "C:x", "s3://x", "x\0", ""])
def test_no_named_file_leads_out_of_the_folder(key: str, path: str) -> None:
    """P1: an experiment is one folder."""
    assert key in message({key: path})


@pytest.mark.parametrize("path", ["x", "a/b.trec", "a..b", ".hidden", "...", "a b/ü.csv"])
def test_files_inside_the_folder_may_have_any_name(path: str) -> None:
    assert design({"query_log.file": path}).query_log.file == path


@pytest.mark.parametrize("name", ["", "-a", "_a", "A", "a b", "a/b", "a.b", "ä", "a" * 64, "a\n"])
def test_name_of_no_experiment(name: str) -> None:
    assert "name" in message({"name": name})


def test_a_checked_design_never_changes() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        design().depth = 5  # type: ignore[misc]

"""P5: the allowed grades, which of them count as relevant, and what each gains."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Gain = Literal["exponential", "linear"]
ScaleName = Literal["0-2", "0-3", "binary"]


class GradeMeaning(BaseModel):
    """One grade: its number, a label, and the cue by which a grader knows it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    grade: int = Field(strict=True, ge=0, le=9, description="0, 1, 2 ... without a gap.")
    label: str = Field(min_length=1, description="Its name, in a word or two.")
    cue: str = Field(min_length=1, description="How a grader knows it.")


class Scale(BaseModel):
    """A scale: grades from 0 up without a gap, the lowest that counts as relevant, and the gain."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    grades: tuple[GradeMeaning, ...] = Field(
        min_length=2, max_length=10, description="From 0 up, each with label and cue."
    )
    relevant_from: int = Field(
        default=1, strict=True, ge=1, description="Lowest grade that is relevant for set measures."
    )
    gain: Gain = Field(default="exponential", description="exponential is 2^g - 1, linear is g.")

    @model_validator(mode="after")
    def _whole(self) -> Scale:
        found = [g.grade for g in self.grades]
        if found != list(range(len(found))):
            raise ValueError(f"grades must run 0, 1, 2 ... without a gap or repeat, not {found}")
        if self.relevant_from > found[-1]:
            raise ValueError(f"relevant_from {self.relevant_from} is above the top grade {found[-1]}")
        return self

    @property
    def top(self) -> int:
        """The highest grade."""
        return self.grades[-1].grade

    @property
    def labels(self) -> list[int]:
        """Every grade of the scale, used or not (kappa runs over all of them)."""
        return [g.grade for g in self.grades]


def _scale(*rows: tuple[str, str]) -> Scale:
    return Scale(grades=tuple(GradeMeaning(grade=i, label=a, cue=b) for i, (a, b) in enumerate(rows)))


NAMED: dict[str, Scale] = {
    "0-2": _scale(
        ("doesn't help", "nothing in it about what the intent asks"),
        ("helps", "states a part of the answer, not enough to stop at"),
        ("answers it", "alone enough to answer the intent"),
    ),
    "0-3": _scale(
        ("poor", "nothing in it about what the intent asks"),
        ("fair", "on the subject, little of the answer"),
        ("good", "most of the answer"),
        ("perfect", "the whole answer"),
    ),
    "binary": _scale(("no", "does not answer the intent"), ("yes", "answers the intent")),
}
"""The scales that a design may name."""

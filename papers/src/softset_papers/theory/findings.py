"""What a check of a theorem returns: lines of claimed, measured, holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

HEAD = ("claimed", "measured", "holds")


@dataclass(frozen=True)
class Finding:
    """One number of a claim: what the paper says, what we measured, whether that agrees.

    ``why`` is given where the claim must fail, and says why: an assumption is left out, to show
    that it is needed, or the claim is only an approximation.
    """

    what: str
    claimed: str
    measured: float
    holds: bool
    why: str = ""

    @property
    def as_expected(self) -> bool:
        """Whether it came out as mathematics says it must."""
        return self.holds != bool(self.why)


@dataclass(frozen=True)
class Claim:
    """A claim of a paper and the function that checks it: ``check(seed=0) -> findings``."""

    id: str
    paper: str
    title: str
    caveat: str
    check: Callable[..., list[Finding]]

    def run(self, seed: int = 0, **sizes: Any) -> dict[str, Any]:
        """Check it; everything in the result can be written as JSON."""
        findings = self.check(seed=seed, **sizes)
        return {
            "id": self.id,
            "paper": self.paper,
            "title": self.title,
            "caveat": self.caveat,
            "seed": seed,
            "findings": [asdict(f) for f in findings],
            "as_expected": all(f.as_expected for f in findings),
        }


def markdown(result: dict[str, Any]) -> str:
    """A result of ``Claim.run`` as a heading, a table and the caveat.

    >>> finding = {"what": "slope", "claimed": "<= 2", "measured": 2.0, "holds": True,
    ...            "why": ""}
    >>> result = {"id": "x", "paper": "000", "title": "A claim", "caveat": "",
    ...           "findings": [finding]}
    >>> print(markdown(result))
    <a id="x"></a>
    ### A claim (paper 000, `x`)
    <BLANKLINE>
    | | claimed | measured | holds |
    |---|---|---|---|
    | slope | <= 2 | 2 | yes |
    """
    lines = [
        f'<a id="{result["id"]}"></a>',
        f"### {result['title']} (paper {result['paper']}, `{result['id']}`)",
        "",
        f"| | {' | '.join(HEAD)} |",
        "|---|---|---|---|",
    ]
    for finding in result["findings"]:
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells(finding)) + " |")
    if result["caveat"]:
        lines += ["", result["caveat"]]
    return "\n".join(lines)


def cells(f: dict[str, Any]) -> list[str]:
    """A finding as text."""
    said = ("yes" if f["holds"] else "no") + (f": {f['why']}" if f["why"] else "")
    return [f["what"], f["claimed"], f"{f['measured']:.4g}", said]


def at_most(what: str, bound: float, measured: float, *, slack: float = 1e-9) -> Finding:
    """``measured <= bound``, up to rounding."""
    return Finding(what, f"≤ {bound:.4g}", measured, measured <= bound * (1 + slack) + slack)


def near(what: str, value: float, measured: float, tolerance: float) -> Finding:
    """``measured`` equals ``value`` within ``tolerance``."""
    return Finding(
        what, f"{value:.4g} ± {tolerance:.2g}", measured, abs(measured - value) <= tolerance
    )


def falls(what: str, values: Sequence[float], *, to: float) -> Finding:
    """A sequence that falls (from first to last) and ends at or below ``to``."""
    return Finding(
        what, f"→ 0 (≤ {to:.2g})", values[-1], values[-1] < values[0] and values[-1] <= to
    )

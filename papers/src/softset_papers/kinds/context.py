"""What a run may use besides its own description."""

from __future__ import annotations

from dataclasses import dataclass, field

from softset_papers.networks.searched import Tried


@dataclass(frozen=True)
class Context:
    """Where the data sets are, and what searches found that were done before."""

    data_dir: str | None = None
    searches: dict[str, Tried] = field(default_factory=dict)  # by ``search_key``

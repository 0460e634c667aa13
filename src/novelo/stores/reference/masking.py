"""A mask over all that the reference store keeps of a thread beside its entries."""

from __future__ import annotations

from collections import Counter

import msgspec

from novelo.masking import Mask, masked
from novelo.stores.masks import masked_draft, masked_manifest, masked_summary
from novelo.stores.reference.kept import Kept

replace = msgspec.structs.replace


def mask_kept(kept: Kept, mask: Mask, counts: Counter[str]) -> None:
    """Put a mask over all of a thread but its entries; what changed, by kind."""
    before = counts.total()
    row = kept.row
    made = replace(row, title=masked(row.title, mask), tags=masked(row.tags, mask), metadata=masked(row.metadata, mask))
    counts["facts"] += made != row
    state = masked(kept.state, mask)
    counts["state"] += state != kept.state
    kept.row, kept.state = made, state
    for first, turn in kept.turns.items():
        clean = turn.manifest and masked_manifest(turn.manifest, mask)
        counts["manifests"] += clean != turn.manifest
        kept.turns[first] = replace(turn, manifest=clean)
    for first, draft in kept.drafts.items():
        said = masked_draft(draft, mask)
        counts["drafts"] += said != draft
        kept.drafts[first] = said
    for i, one in enumerate(kept.summaries):
        told = masked_summary(one, mask)
        counts["summaries"] += told != one
        kept.summaries[i] = told
    if counts.total() > before:
        kept.row = replace(kept.row, content_version=kept.row.content_version + 1)

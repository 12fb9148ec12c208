"""`campaign compare`: two campaigns that toggled nothing, before and after in one table."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ..core import codec
from ..core.errors import MalformedError, NotFoundError
from ..core.experiment.campaign import Campaign
from ..core.experiment.observing.comparing import compare, lines, of_shown
from ..core.text import when
from ..engine.world import World
from .campaign_views import campaign


def compared(world: World, before: str, after: str) -> Dict[str, Any]:
    """Both campaigns, the earlier one as before."""
    first, second = sorted(
        (_observed(world, name) for name in (before, after)), key=lambda one: one.created_at_s
    )
    if first.campaign_id == second.campaign_id:
        raise MalformedError("a campaign compared with itself says nothing", "name two")
    shown = [campaign(world, one.campaign_id)["observed"] for one in (first, second)]
    found = compare(*map(of_shown, shown))
    return {
        "before": first.campaign_id, "before_at_s": first.created_at_s,
        "after": second.campaign_id, "after_at_s": second.created_at_s,
        "comparison": codec.to_plain(found),
        "lines": lines(found, second.created_at_s - first.created_at_s),
    }


def text(data: Mapping[str, Any]) -> str:
    """`ceph wcache campaign compare`."""
    head = (
        f"before: campaign {data['before']} of {when(data['before_at_s'])} UTC; after: campaign "
        f"{data['after']} of {when(data['after_at_s'])} UTC"
    )
    return "\n".join([head, "", *data["lines"]])


def _observed(world: World, campaign_id: str) -> Campaign:
    found = world.campaigns.get(campaign_id)
    if found is None:
        raise NotFoundError(
            f"there is no campaign {campaign_id[:40]!r}", "see `ceph wcache campaign ls`"
        )
    if not found.options.observe:
        raise MalformedError(
            f"campaign {campaign_id} toggled the caches: it compares the modes by itself",
            "compare campaigns that were started with --observe; of two records see `wcache "
            "compare --before`",
        )
    return found

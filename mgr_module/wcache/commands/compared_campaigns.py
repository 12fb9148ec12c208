"""`campaign compare`: two campaigns that toggled nothing, before and after in one table."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping

from ..core import codec
from ..core.errors import MalformedError, NotFoundError
from ..core.experiment.campaign import Campaign
from ..core.experiment.observing.comparing import compare, lines, of_shown
from ..core.text import when
from ..engine.world import World


def compared(
    world: World, show: Callable[[str], Dict[str, Any]], first: str, second: str
) -> Dict[str, Any]:
    """Both campaigns, the earlier one as before; `show` is `campaign show`."""
    before, after = sorted(
        (_observed(world, name) for name in (first, second)), key=lambda one: one.created_at_s
    )
    if before.campaign_id == after.campaign_id:
        raise MalformedError("a campaign compared with itself says nothing", "name two")
    shown = [show(one.campaign_id)["observed"] for one in (before, after)]
    found = compare(*map(of_shown, shown))
    return {
        "before": before.campaign_id, "before_at_s": before.created_at_s,
        "after": after.campaign_id, "after_at_s": after.created_at_s,
        "comparison": codec.to_plain(found),
        "lines": lines(found, after.created_at_s - before.created_at_s),
    }


def text(data: Mapping[str, Any]) -> str:
    """`ceph wcache campaign compare`."""
    head = (
        f"before: campaign {data['before']} of {when(data['before_at_s'])} UTC; after: campaign "
        f"{data['after']} of {when(data['after_at_s'])} UTC"
    )
    return "\n".join([head, "", *data["lines"]])


def _observed(world: World, campaign_id: str) -> Campaign:
    campaign = world.campaigns.get(campaign_id)
    if campaign is None:
        raise NotFoundError(
            f"there is no campaign {campaign_id[:40]!r}", "see `ceph wcache campaign ls`"
        )
    if not campaign.options.observe:
        raise MalformedError(
            f"campaign {campaign_id} toggled the caches: it compares the modes by itself",
            "compare campaigns that were started with --observe; of two records see `wcache "
            "compare --before`",
        )
    return campaign

"""The HTML report: one self-contained page from the evidence, by a jinja2 template.

Everything in it comes from outside (drives choose their own model strings), so the
template escapes by default and nothing is marked safe.
"""

from __future__ import annotations

import time
from dataclasses import replace
from importlib import resources
from typing import Any, List, Mapping, Optional

from wcache.core.drive.manual import pin_word
from wcache.core.errors import MalformedError, NotReadyError
from wcache.core.figures import geometry
from wcache.core.model import load_name
from wcache.core.record import Record
from wcache.core.text import (
    amount,
    before_after,
    duration,
    latency,
    named,
    relative,
    short_id,
    when,
)
from wcache.core.verdict.result import turned_off

from . import report_story
from .evidence import Evidence

TEMPLATE = "report.html.j2"


def render(evidence: Evidence, *, now_s: Optional[float] = None) -> str:
    """The page as text.

    Raises NotReadyError where jinja2 is not installed, MalformedError where an answer
    lacks what the page shows.
    """
    try:
        import jinja2
    except ImportError:
        raise NotReadyError("the report needs jinja2", "install python3-jinja2") from None
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(template_text), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )
    environment.filters.update(
        amount=amount, before_after=before_after, duration=duration, latency=latency,
        load_name=load_name, named=named, next_words=report_story.next_words, pin_word=pin_word,
        relative=relative, setting_of=report_story.setting_of, short_id=short_id,
        turned_off=turned_off, when=when,
    )
    records = {record.record_id: record for record in evidence.records}
    plots = {record.record_id: _distribution(record) for record in evidence.records}
    try:
        return environment.get_template(TEMPLATE).render(
            evidence=evidence, plots=plots, story=report_story.tell(evidence),
            over_time={
                campaign["campaign_id"]: _over_time(campaign, records)
                for campaign in evidence.campaigns
            },
            latencies=report_story.LATENCIES, plots_max=report_story.PLOTS_MAX,
            names=[name for _, name in report_story.LATENCIES],
            made_at_s=time.time() if now_s is None else now_s,
        )
    except (
        # Filters raise the last two where an answer has an object in place of a word.
        jinja2.UndefinedError, TypeError, ValueError, OverflowError, LookupError, AttributeError,
    ) as error:
        raise MalformedError(
            f"an answer does not have what the report shows ({error})",
            "install module and tool of the same version",
        ) from None


def _distribution(record: Record) -> geometry.Plot:
    setup = record.setup
    return geometry.distribution(
        record, f"osd.{setup.osd_id} {setup.load_point.short} ({setup.role.value}), "
        f"{record.record_id}",
    )


def _over_time(campaign: Mapping[str, Any], records: Mapping[str, Record]) -> List[geometry.Plot]:
    """What bcache was at over the time of each experiment of a campaign."""
    rows = (*campaign["results"], *campaign.get("option_results", ()))
    found = []
    for record in filter(None, (records.get(row["record_id"]) for row in rows)):
        setup = record.setup
        of = f"osd.{setup.osd_id} {setup.load_point.short}, {record.record_id}"
        found += [
            replace(plot, title=f"{plot.title}: {of}") for plot in geometry.bcache(record)
        ]
    return found


def template_text(name: str) -> str:
    """A template's text, wherever this package lives: a tree, a wheel, or a zipapp."""
    place = resources.files("wcache_cli").joinpath("templates").joinpath(name)
    return place.read_text(encoding="utf-8")

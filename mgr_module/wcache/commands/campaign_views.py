"""What only looks at campaigns: `campaign ls`, `campaign show` and `campaign record`."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ..core import codec, versions
from ..core.errors import NotFoundError
from ..core.experiment.campaign import Campaign
from ..core.experiment.run import RunMachine
from ..core.experiment.run_state import RunStatus
from ..core.record import Record
from ..core.verdict.result import Result
from ..engine.world import World
from ..services.campaigns import periods_of
from ..services.expecting import Ending, ending, periods_at_end


def campaigns(world: World) -> Dict[str, Any]:
    """`campaign ls`: all campaigns, newest last."""
    return {
        "campaigns": [
            head(world, campaign_id)
            for campaign_id in sorted(world.campaigns, key=lambda c: (len(c), c))
        ],
    }


def plain_record(record: Optional[Record], record_id: str) -> Dict[str, Any]:
    """`campaign record`: one record with its raw samples, as `wcache analyze` takes it."""
    if record is None:
        raise NotFoundError(
            f"there is no record {record_id[:60]!r}", "see `ceph wcache campaign show`"
        )
    plain: Dict[str, Any] = versions.to_plain(record)
    return plain


def head(world: World, campaign_id: str) -> Dict[str, Any]:
    """A campaign in one row."""
    campaign = world.campaigns[campaign_id]
    machines = [world.runs[run_id] for run_id in campaign.run_ids if run_id in world.runs]
    open_runs = [m for m in machines if not m.over]
    aborted = [m for m in machines if m.state.status is RunStatus.ABORTED]
    progress = [periods_of(world, machine) for machine in machines]
    # the end of the last run is not the end: its record is stored first, then analysed
    going_on = open_runs or campaign_id in world.awaited
    status = "running" if going_on else "aborted" if aborted else "done"
    results = [r for r in world.all_results.values() if r.campaign_id == campaign_id]
    observed = [one for m in machines for one in m.state.observed]
    measuring = [m for m in open_runs if not m.spec.observes]
    # a factorial is told of twice, and was measured once; runs under way have results as well
    told = [
        r for r in results if not r.measured_in
        and not any(r.record_id.startswith(f"{m.spec.run_id}.") for m in measuring)
    ]
    return {
        "campaign_id": campaign_id, "status": status, "scope": campaign.options.scope,
        "observes": campaign.options.observe,
        "created_at_s": campaign.created_at_s, "seed": campaign.seed,
        "runs": len(machines), "runs_over": len(machines) - len(open_runs),
        "runs_aborted": len(aborted),
        "periods_done": sum(done for done, _ in progress),
        "periods_max": sum(most for _, most in progress),
        "periods_expected": sum(periods_at_end(world, machine) for machine in machines),
        **(ending(world, campaign) if going_on else Ending(0.0, 0.0)).fields(),
        "seconds": round(
            sum(r.seconds for r in told) + sum(m.seconds_spent for m in measuring)
            + sum(one.seconds for one in observed), 3,
        ),
        "bytes_written": sum(r.bytes_written for r in told)
        + sum(m.bytes_spent for m in (*measuring, *(m for m in machines if m.spec.observes))),
    }


def _waits_s(world: World, machine: RunMachine) -> Optional[float]:
    """For how long a run waits for OSDs that are ill; None where it does not."""
    since_s = machine.state.ill_since_s
    return None if machine.over or not since_s else round(max(0.0, world.now_s - since_s), 1)


def campaign(world: World, campaign_id: str) -> Dict[str, Any]:
    """`campaign show`: runs, results and what was left out."""
    if campaign_id not in world.campaigns:
        raise NotFoundError(
            f"there is no campaign {campaign_id[:40]!r}", "see `ceph wcache campaign ls`"
        )
    one = world.campaigns[campaign_id]
    runs: List[Dict[str, Any]] = []
    observed: List[Dict[str, Any]] = []
    for run_id in one.run_ids:
        machine = world.runs.get(run_id)
        if machine is not None:
            done, most = periods_of(world, machine)
            observed += _observed(world, machine)
            runs.append({
                "run_id": run_id, "hostname": machine.spec.hostname,
                "domain_id": machine.spec.domain_id,
                "domain_ids": list(machine.spec.domain_ids),
                "dev_names": [
                    name for domain_id in machine.spec.domain_ids
                    for name in _dev_names(world, machine.spec.hostname, domain_id)
                ],
                "status": machine.state.status.value, "reason": machine.state.reason,
                "waits_s": _waits_s(world, machine),
                "given_back": not machine.over and bool(machine.state.ill_since_s)
                and not machine.state.priors,
                "instead_of": machine.spec.instead_of,
                "restored": machine.state.restored or not machine.over,
                "periods_done": done, "periods_max": most,
                "periods_expected": periods_at_end(world, machine),
                "interrupted_periods": sum(w.periods for w in machine.state.waste),
            })
    results = []
    for _, result in sorted(world.results.items()):
        if result.campaign_id == campaign_id:
            plain = codec.to_plain(result)
            del plain["option"]  # these are about cache modes
            plain["dev_names"] = _dev_names(world, result.hostname, result.domain_id)
            results.append(plain)
    options = codec.to_plain(one.options)
    del options["option"]  # see `compares`
    return {
        **head(world, campaign_id),
        **_of_options(world, one), "options": options, "skipped": list(one.skipped),
        "run_list": runs, "results": results, "observed": observed,
    }


def _of_options(world: World, campaign: Campaign) -> Dict[str, Any]:
    """What a campaign that compares two values of an option has besides."""
    if campaign.options.option is None:
        return {}
    return {
        "compares": str(campaign.options.option),
        "option_results": [
            told_of_option(world, result) for _, result in sorted(world.option_results.items())
            if result.campaign_id == campaign.campaign_id
        ],
    }


def told_of_option(world: World, result: Result) -> Dict[str, Any]:
    """What an experiment with two values of an option came to, in the option's own words."""
    trial = result.option
    assert trial is not None  # it is one of `option_results`  # noqa: S101
    return {
        "record_id": result.record_id, "campaign_id": result.campaign_id,
        "hostname": result.hostname, "osd_id": result.osd_id,
        "device_class": result.device_class, "drive_model": str(result.drive_model),
        "simulated": result.simulated,
        "dev_names": _dev_names(world, result.hostname, result.domain_id),
        "load_point": result.load_point.value, "option": codec.to_plain(trial),
        "verdict": trial.better(result.verdict), "decided": result.verdict.decided,
        "ratio": result.ratio, "ratio_low": result.ratio_low, "ratio_high": result.ratio_high,
        "a_us": result.write_back.p50_us or result.write_back.mean_us,
        "b_us": result.write_through.p50_us or result.write_through.mean_us,
        "pairs": result.pairs, "seconds": result.seconds, "bytes_written": result.bytes_written,
        "why": trial.words(result.why), "ended": result.ended,
        "warnings": [trial.words(line) for line in result.warnings],
    }


def _observed(world: World, machine: RunMachine) -> List[Dict[str, Any]]:
    """What a run that toggles nothing has seen, load by load."""
    spec = machine.spec
    about = {
        "run_id": spec.run_id, "hostname": spec.hostname, "domain_id": spec.domain_id,
        "dev_names": _dev_names(world, spec.hostname, spec.domain_id),
    }
    models = {setup.osd_id: str(setup.drive_model) for setup in spec.experiments}
    return [
        {**codec.to_plain(one), **about, "drive_model": models.get(one.osd_id, "")}
        for one in machine.state.observed
    ]


def _dev_names(world: World, hostname: str, domain_id: str) -> List[str]:
    """What the host calls the drives of a cache domain now; empty where it is gone."""
    report = world.reports.get(hostname)
    drives = report.drives if report else ()
    return [drive.dev_name for drive in drives if drive.domain_id == domain_id]

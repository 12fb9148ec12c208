"""Metrics, alerts and the Grafana dashboard's queries under a real Prometheus and node_exporter.

Both come from Debian's packages, unpacked and not installed: no service is begun.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest
import yaml
from harness.config import choose_ports
from harness.processes import wait_until
from harness.releases import ensure_built, run
from module_world import measured, said
from sim_drives import DRIVES
from wcache.core.figures.prometheus_text import CONTENT_TYPE
from wcache.web.app import metrics_text
from wcache_probe.textfile import Textfile
from wcache_probe.textfile import metrics_text as probe_text
from wcache_sim.drive_schema import parse_drive_file
from wcache_sim.host import SimulatedHost

pytestmark = [pytest.mark.cluster, pytest.mark.one_release, pytest.mark.long]

TEMPLATES = Path(__file__).parents[2] / "templates"
PACKAGES = ("prometheus", "prometheus-node-exporter")
# As Ceph's own exporter tells of health checks.
HEALTH = """# HELP ceph_health_detail healthcheck status by type (0=inactive, 1=active)
# TYPE ceph_health_detail gauge
ceph_health_detail{name="WCACHE_UNSAFE",severity="HEALTH_ERR"} 1
ceph_health_detail{name="WCACHE_AGENT_SILENT",severity="HEALTH_WARN"} 1
ceph_health_detail{name="WCACHE_RECOMMENDATION",severity="HEALTH_WARN"} 0
# TYPE ceph_osd_commit_latency_ms gauge
ceph_osd_commit_latency_ms{ceph_daemon="osd.0"} 12
"""
CONFIG = """
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [RULES]
scrape_configs:
  - job_name: wcache
    static_configs: [{targets: ["127.0.0.1:OURS", "127.0.0.1:NODE"]}]
"""


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of prometheus, promtool and prometheus-node-exporter."""

    def build(folder: Path) -> None:
        run(["sh", "-ec", 'cd "$0"; apt-get download -q "$@"; for f in *.deb; do dpkg -x "$f" .; '
             'rm "$f"; done', str(folder), *PACKAGES], "Prometheus")

    return ensure_built("prometheus", "1", build) / "usr/bin"


def drives(tmp_path: Path) -> Any:
    return SimulatedHost(parse_drive_file(DRIVES), "sim1").look()


def our_metrics() -> str:
    mgr = measured()
    return metrics_text(*(said(mgr, words) for words in ("status", "campaign ls", "plan ls")))


@contextmanager
def served(text: str) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@contextmanager
def running(log: Path, *argv: str) -> Iterator[None]:
    with open(log, "wb") as out:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.mark.parametrize("text", [our_metrics, lambda: probe_text(drives(Path()))])
def test_promtool_finds_no_fault_in_the_metrics(programs: Path, text: Callable[[], str]) -> None:
    done = subprocess.run(
        [programs / "promtool", "check", "metrics"], input=text(), capture_output=True, text=True,
        timeout=60, check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_accepts_the_alerts(programs: Path) -> None:
    subprocess.run(
        [programs / "promtool", "check", "rules", TEMPLATES / "prometheus-alerts.yml"],
        capture_output=True, timeout=60, check=True,
    )


# What is raised, and the alert that it fires after how long; a check that is told as 0 fires none.
FIRED = (
    ("WCACHE_UNSAFE", 1, "2m", "WcacheDataAtRisk"), ("WCACHE_UNSAFE", 0, "2h", ""),
    ("WCACHE_RESTORE_FAILED", 1, "6m", "WcacheNotRestored"),
    ("WCACHE_RECOMMENDATION", 1, "61m", "WcacheRecommendation"),
    ("WCACHE_RECOMMENDATION", 1, "30m", ""), ("WCACHE_DRIFT", 1, "16m", "WcacheFinding"),
    ("WCACHE_NOT_PINNED", 1, "2m", "WcacheDataAtRisk"), ("OSD_DOWN", 1, "2h", ""),
)
ALERTS = ("WcacheDataAtRisk", "WcacheNotRestored", "WcacheRecommendation", "WcacheFinding")


def test_each_alert_fires_for_its_checks_and_for_no_others(programs: Path, tmp_path: Path) -> None:
    rules = yaml.safe_load((TEMPLATES / "prometheus-alerts.yml").read_text())
    by_name = {rule["alert"]: rule for rule in rules["groups"][0]["rules"]}
    tests = []
    for code, value, after, fired in FIRED:
        about = {"name": code, "severity": "HEALTH_WARN"}
        expected = []
        for alert in ALERTS:
            rule = by_name[alert]
            annotations = {
                key: text.replace("{{ $labels.name }}", code)
                for key, text in rule["annotations"].items()
            }
            firing = {"exp_labels": {**about, **rule["labels"]}, "exp_annotations": annotations}
            expected.append({
                "eval_time": after, "alertname": alert,
                "exp_alerts": [firing] if alert == fired else [],
            })
        series = f'ceph_health_detail{{name="{code}", severity="HEALTH_WARN"}}'
        tests.append({
            "interval": "1m", "alert_rule_test": expected,
            "input_series": [{"series": series, "values": f"{value}x200"}],
        })
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({
        "rule_files": [str(TEMPLATES / "prometheus-alerts.yml")], "evaluation_interval": "1m",
        "tests": tests,
    }))
    done = subprocess.run(
        [programs / "promtool", "test", "rules", file], capture_output=True, text=True,
        timeout=60, check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def ask(programs: Path, tmp_path_factory: Any) -> Iterator[Callable[[str], List[Dict[str, Any]]]]:
    """Asks a Prometheus that scrapes the module's metrics, Ceph's, and a node_exporter."""
    folder = tmp_path_factory.mktemp("prometheus")
    Textfile(str(folder), print).write(drives(folder))
    at = choose_ports()
    node = at + 1
    with served(our_metrics() + HEALTH) as ours:
        # what takes minutes to fire in earnest fires at once here
        rules = (TEMPLATES / "prometheus-alerts.yml").read_text()
        for waiting in ("1m", "5m", "15m", "1h"):
            rules = rules.replace(f"for: {waiting}\n", "for: 0s\n")
        (folder / "rules.yml").write_text(rules)
        (folder / "prometheus.yml").write_text(
            CONFIG.replace("RULES", str(folder / "rules.yml")).replace("OURS", str(ours))
            .replace("NODE", str(node))
        )
        exporter = [
            str(programs / "prometheus-node-exporter"), "--collector.disable-defaults",
            "--collector.textfile", f"--collector.textfile.directory={folder}",
            f"--web.listen-address=127.0.0.1:{node}",
        ]
        prometheus = [
            str(programs / "prometheus"), f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{at}",
        ]

        def asked(path: str, **query: str) -> Any:
            words = urllib.parse.urlencode(query)
            url = f"http://127.0.0.1:{at}/api/v1/{path}?{words}"
            with urllib.request.urlopen(url, timeout=10) as reply:
                return json.load(reply)["data"]

        with running(folder / "node.log", *exporter), running(folder / "p.log", *prometheus):
            def up() -> bool:
                try:
                    found = asked("query", query="up")["result"]
                except OSError:
                    return False
                return [one["value"][1] for one in found] == ["1", "1"]

            assert wait_until(up, 60), (folder / "p.log").read_text()
            time.sleep(3)  # of scrapes and evaluations, one a second
            asked.alerts = lambda: asked("alerts")["alerts"]  # type: ignore[attr-defined]
            yield asked


def test_each_query_of_the_dashboard_is_answered(ask: Any) -> None:
    board = json.loads((TEMPLATES / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    empty = [q for q in queries if not ask("query", query=q)["result"]]
    # no drive of this host is at risk
    assert empty == ["wcache_probe_drive_unsafe == 1"]
    ask("query", query=board["annotations"]["list"][0]["expr"])


def test_alerts_fire_where_a_check_is_raised_and_only_there(ask: Any) -> None:
    firing = {
        (one["labels"]["alertname"], one["labels"].get("name")) for one in ask.alerts()
        if one["state"] == "firing"
    }
    assert firing == {
        ("WcacheDataAtRisk", "WCACHE_UNSAFE"), ("WcacheFinding", "WCACHE_AGENT_SILENT"),
    }


def test_the_probes_file_comes_through_node_exporter(ask: Any) -> None:
    (found,) = ask("query", query="sum(wcache_probe_drives)")["result"]
    assert found["value"][1] == "5"
    assert ask("query", query="node_textfile_mtime_seconds")["result"]
    (errors,) = ask("query", query="node_textfile_scrape_error")["result"]
    assert errors["value"][1] == "0"

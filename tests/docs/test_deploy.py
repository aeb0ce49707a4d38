"""The files for operators name what exists: metrics, settings, users."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ruamel.yaml import YAML

from interlock.web.metrics.table import METRICS

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = re.compile(r"\binterlock_[a-z_]+")


def test_the_dashboard_and_the_alerts_ask_for_metrics_that_exist() -> None:
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    alerts = YAML(typ="safe").load((DEPLOY / "alerts.yaml").read_text())
    asked += [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    names = {re.sub(r"_bucket$", "", name) for text in asked for name in NAME.findall(text)}
    assert len(names) > 15
    assert names <= set(METRICS), names - set(METRICS)


def test_the_container_runs_as_nobody_special_and_has_a_health_check() -> None:
    recipe = (DEPLOY / "Dockerfile").read_text()
    assert re.search(r"^USER 10001$", recipe, re.MULTILINE)
    assert "HEALTHCHECK" in recipe
    services = YAML(typ="safe").load((DEPLOY / "compose.yaml").read_text())["services"]
    assert services["interlock"]["read_only"]
    assert services["interlock"]["cap_drop"] == ["ALL"]
    assert services["interlock"]["ports"] == ["127.0.0.1:7420:7420"]
    assert "ports" not in services["postgres"]

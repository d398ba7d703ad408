"""The chart as Helm renders it, judged by Kubernetes' own schemas. `make test-helm` builds Helm; no cluster runs here."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "deploy/helm/culvert"
HELM = ROOT / "build/helm/helm"
# The oldest that the chart's kubeVersion permits, and the newest with schemas.
CLUSTERS = ("1.27.0", f"{kubernetes_validate.latest_version()}")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not HELM.is_file(), reason="make test-helm builds Helm")]

GATEWAY = {"name": "gw-berlin", "linkSecret": "gw-berlin-link"}
SETS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "one controller": {"controller": {"replicas": 1, "state": {"accessMode": "ReadWriteOnce"}}},
    "every value": {
        "imageTag": "0.1.0",
        "imagePullSecrets": [{"name": "registry"}],
        "publicName": "vpn.corp.example",
        "managedZones": ["corp.example", "lab.example"],
        "protectedPrefixes": ["10.20.0.0/16", "fd00:20::/48"],
        "controller": {
            "state": {"claim": "keys"},
            "publicCertificateSecret": "vpn-tls",
            "trustedProxies": ["10.0.0.0/8"],
            "proxyProtocol": ["2001:db8::/32"],
            "settings": {"CULVERT_DEVICE_APPROVAL": "true"},
            "service": {"type": "NodePort", "annotations": {"example/pool": "a"}, "loadBalancerClass": ""},
            "nodeSelector": {"pool": "vpn"},
            "tolerations": [{"key": "vpn", "operator": "Exists"}],
        },
        "dnsUpdater": {"keysSecret": "dns-keys"},
        "gateways": [
            GATEWAY,
            {
                "name": "gw-paris",
                "linkSecret": "gw-paris-link",
                "joinOptions": ["--wan=net1", "--lan=net2"],
                "annotations": {"k8s.v1.cni.cncf.io/networks": "wan, lan"},
                "sysctls": [{"name": "net.ipv4.conf.all.forwarding", "value": "0"}],
                "nodeSelector": {"site": "paris"},
                "tolerations": [{"operator": "Exists"}],
                "storageClass": "fast",
                "service": {"type": "LoadBalancer", "annotations": {"example/address": "198.51.100.7"}},
            },
        ],
        "networkPolicy": {
            "clients": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
            "database": [{"ipBlock": {"cidr": "10.1.2.3/32"}}],
            "databasePort": 6432,
            "egress": [{"ports": [{"port": 443}]}],
        },
    },
    "no network policies": {"networkPolicy": {"enabled": False}, "gateways": [GATEWAY]},
}


def helm(*arguments: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    given = ["--values", "-"] if values is not None else []
    return subprocess.run(
        [HELM, *arguments, *given], input=yaml.safe_dump(values), capture_output=True, text=True, check=False
    )


def render(values: dict[str, Any], cluster: str = "1.33.0") -> list[dict[str, Any]]:
    done = helm("template", "vpn", str(CHART), "--kube-version", cluster, values=values)
    assert done.returncode == 0, done.stderr
    return [it for it in yaml.safe_load_all(done.stdout) if it]


def containers(rendered: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    pods = [it["spec"]["template"]["spec"] for it in rendered if it["kind"] in ("Deployment", "StatefulSet")]
    return [(pod, container) for pod in pods for container in pod["containers"]]


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_every_set_of_values_lints_and_fits_kubernetes(values: dict[str, Any]) -> None:
    done = helm("lint", "--strict", str(CHART), values=values)
    assert done.returncode == 0, done.stdout
    for cluster in CLUSTERS:
        for resource in render(values, cluster):
            kubernetes_validate.validate(resource, cluster.rpartition(".")[0], strict=True)


def test_containers_write_to_volumes_alone_and_only_gateways_are_root() -> None:
    for pod, container in containers(render(SETS["every value"])):
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"], container["name"]
        assert not context["allowPrivilegeEscalation"], container["name"]
        assert context["capabilities"]["drop"] == ["ALL"]
        assert not pod["automountServiceAccountToken"]
        if container["name"] == "gateway":
            assert context["runAsUser"] == 0
        else:
            assert pod["securityContext"]["runAsNonRoot"]
            assert "add" not in context["capabilities"]
        assert {"startupProbe", "readinessProbe", "resources"} <= container.keys()


def test_secrets_come_from_secrets_as_files() -> None:
    for _, container in containers(render(SETS["every value"])):
        for variable in container.get("env", []):
            assert "secretKeyRef" not in variable.get("valueFrom", {}), variable
        assert "envFrom" not in container


def test_each_policy_and_budget_selects_pods_that_exist() -> None:
    rendered = render(SETS["every value"])
    pods = [
        it["spec"]["template"]["metadata"]["labels"]
        for it in rendered
        if it["kind"] in ("Deployment", "StatefulSet")
    ]
    found: set[str] = set()
    for it in rendered:
        spec = it["spec"]
        match it["kind"]:
            case "NetworkPolicy":
                wanted = spec["podSelector"]["matchLabels"]
            case "PodDisruptionBudget":
                wanted = spec["selector"]["matchLabels"]
            case "Service":
                wanted = spec["selector"]
            case _:
                continue
        found.add(it["kind"])
        assert any(wanted.items() <= labels.items() for labels in pods), it["metadata"]["name"]
    assert found == {"NetworkPolicy", "PodDisruptionBudget", "Service"}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"controler": {"replicas": 3}}, "controler"),
        ({"controller": {"databaseUrl": "postgresql://culvert:secret@db/culvert"}}, "databaseUrl"),
        ({"controller": {"settings": {"CULVERT_DATABASE_URL": "postgresql://db/culvert"}}}, "is a secret"),
        ({"controller": {"state": {"accessMode": "ReadWriteOnce"}}}, "replicas to 1"),
        ({"publicName": "https://vpn.corp.example/"}, "publicName"),
        ({"gateways": [{"name": "gw-berlin"}]}, "linkSecret"),
        ({"gateways": [{**GATEWAY, "link": "https://vpn.corp.example/join#AAAA"}]}, "link"),
    ],
)
def test_values_that_would_not_work_are_refused(values: dict[str, Any], says: str) -> None:
    done = helm("template", "vpn", str(CHART), "--kube-version", "1.33.0", values=values)
    assert done.returncode != 0
    assert says in done.stderr

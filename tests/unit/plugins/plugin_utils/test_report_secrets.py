# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nothing secret leaves: what is planted in any part of a run stands in no file of its report."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.redaction import MASK, is_secret_name, mask_secrets, mask_text, redact
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import judge_again, make_report, redacted, report_files
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_judge import cut, hanging, run_of, wrong_twin
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.sweeps import ladder, nccl_sweep
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_report import schema_errors

#: Made up for this test; each stands once in PLANTED below.
SECRETS = {
    "option": "Opt1onSecretValue", "field": "F1eldSecretValue", "variable": "Var1ableSecretValue", "bearer": "Bear3rSecretValue",
    "address": "Addr3ssSecretValue", "pair": "Pa1rSecretValue", "quoted": "Qu0ted Secret Value", "key": "K3yBodyOfAPrivateKey",
    "form": "hf_" + "A1b2C3d4E5f6G7h8I9j0",
    "vault": "6162636465666768696a6b6c", "json": "Js0nSecretValue",
}
IDENTITIES = {
    "mac": "b8:3f:d2:aa:bb:cc", "serial": "MT2345X01234", "guid": "0xb83fd20300aabbcc", "serial_in_text": "1420625009999",
    "uuid": "4c4c4544-0051-3610-8052-b4c04f4e3333",
    "mac_upper": "B8-3F-D2-11-22-33", "guid_short": "b83f:d203:00dd:eeff",
}


def plant(data: dict[str, Any]) -> None:
    """Put secrets and identities into every part of a run."""
    node = data["nodes"]["spark1"]
    node["environment"] = {"HF_TOKEN": SECRETS["variable"], "NCCL_DEBUG": "INFO"}
    node["become"] = {"ansible_become_password": SECRETS["field"]}
    node["serial_number"] = IDENTITIES["serial"]
    node["system_uuid"] = IDENTITIES["uuid"]
    node["interfaces"]["enp1s0f0np0"]["permanent_mac"] = IDENTITIES["mac_upper"]
    node["rdma_devices"]["rocep1s0f0"]["node_guid"] = IDENTITIES["guid_short"]
    node["rdma_devices"]["rocep1s0f0"]["gids"].append(
        {"index": 0, "gid": "fe80:0000:0000:0000:ba3f:d2ff:feaa:bbcc", "type": "RoCE v2", "ipv4": None, "netdev": "enp1s0f0np0"}
    )
    node["interfaces"]["enp1s0f0np0"]["mac"] = IDENTITIES["mac"]
    for entry in data["paths"]["spark2"]:
        if entry["peer_node"] == "spark1" and entry["peer_interface"] == "enp1s0f0np0":
            entry["neighbour_mac"] = IDENTITIES["mac"]
    node["unavailable"]["vpd"] = f"board {IDENTITIES['serial']}, S/N: {IDENTITIES['serial_in_text']}, guid {IDENTITIES['guid']}"
    node["unavailable"]["curl"] = f'curl -H "Authorization: Bearer {SECRETS["bearer"]}" https://user:{SECRETS["address"]}@host/x; again {SECRETS["variable"]}'
    node["unavailable"]["json"] = json.dumps({"api_key": SECRETS["json"]})
    node["unavailable"]["key"] = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRETS['key']}\n-----END OPENSSH PRIVATE KEY-----"
    node["unavailable"]["vault"] = f"$ANSIBLE_VAULT;1.1;AES256\n    {SECRETS['vault']}\n    {SECRETS['vault']}"
    data["plan"]["nodes"]["spark2"]["nccl_environment"].append({"name": "MY_SECRET", "value": SECRETS["pair"], "reason": "a test"})
    data["plan"]["notes"] = [{"id": "plan.note", "subject": "spark1", "message": f"password='{SECRETS['quoted']}' and {SECRETS['form']}"}]
    for record in data["perftest"]["spark1"]["tests"]:
        record["command"] = ["ib_write_bw", "--password", SECRETS["option"], "-d", record["device"]]
        record["tail"] = f"DB_PASSWORD={SECRETS['option']} failed; mac {IDENTITIES['mac']}"
    data["nccl"] = {"spark1": {"runs": [{**nccl_sweep("all_reduce", ["spark1", "spark2"]), "env": [f"AWS_SECRET_ACCESS_KEY={SECRETS['variable']}"]}]}}
    data["nccl"]["spark1"]["command"] = ["mpirun", "-x", f"HF_TOKEN={SECRETS['variable']}", "--password", SECRETS["option"]]
    data["iperf3"] = ladder(data["plan"])
    data["iperf3"]["spark1"]["tests"][0]["tail"] = f"auth_token={SECRETS['field']} {SECRETS['form']} {IDENTITIES['mac']}"
    data["unreachable"]["spark3"] = f"ssh: sshpass -p {SECRETS['option']} failed, password: {SECRETS['quoted']!r}"
    data["drift"] = [{"host": "spark1", "subject": "x", "key": "macaddress", "wanted": IDENTITIES["mac"], "live": "auth_token: " + SECRETS["field"]}]


@pytest.mark.parametrize("fault", [None, cut, hanging, wrong_twin])
def test_planted_secrets_are_in_no_file(fault: Any) -> None:
    data = run_of()
    plant(data)
    if fault:
        fault(data)
    report = make_report(data)
    for name, text in report_files(report).items():
        assert not [secret for secret in SECRETS.values() if secret in text or json.dumps(secret)[1:-1] in text], name
    assert schema_errors(report) == []
    kept = report_files(report)["report.json"]
    assert IDENTITIES["mac"] in kept and "NCCL_DEBUG" in kept


def test_identities_are_in_no_file_on_request() -> None:
    data = run_of()
    plant(data)
    hanging(data)
    report = redacted(make_report(data))
    names = [*IDENTITIES.values(), *(value.lower() for value in IDENTITIES.values()), "ba3f:d2ff:feaa:bbcc", "02:00:00:00"]
    for name, text in report_files(report).items():
        assert not [value for value in names if value in text], name
    assert schema_errors(report) == []
    assert "mac-1" in report_files(report)["report.json"]


@pytest.mark.parametrize("fault", [None, cut, wrong_twin])
def test_a_redacted_report_is_judged_alike(fault: Any) -> None:
    data = run_of()
    plant(data)
    if fault:
        fault(data)
    report = redacted(make_report(data))
    again = judge_again(json.loads(report_files(report)["report.json"]))
    assert report_files(again) == report_files(report)


def test_the_same_identity_has_the_same_name_everywhere() -> None:
    found = redact({"mac": "52:54:00:01:02:00", "text": "from 52:54:00:01:02:00", "gid": "fe80::5054:ff:fe01:200/64", "other": "52:54:00:01:02:01"})
    assert found == {"mac": "mac-1", "text": "from mac-1", "gid": "fe80::mac-1/64", "other": "mac-2"}
    assert redact(found) == found


@pytest.mark.parametrize("text", [
    "192.168.177.11/24", "0000:01:00.0", "2001:db8:1:2:3:4:5:6", "0000:0000:0000:0000:0000:ffff:c0a8:b10b", "10:20:30", "12:34:56:78",
])
def test_addresses_and_times_are_no_identities(text: str) -> None:
    assert redact({"x": text}) == {"x": text}


@pytest.mark.parametrize("text", [
    "the password is not set", "pass 3, fail: 2", "pass: 12", "key=mtu", "tokens: 128", "output_tokens=512",
    "NCCL_IB_HCA=rocep1s0f0", "monkey: banana", "author: someone",
])
def test_ordinary_texts_stay(text: str) -> None:
    assert mask_text(text) == text


@pytest.mark.parametrize(("text", "wanted"), [
    ("HF_TOKEN=abc123 x=1", f"HF_TOKEN={MASK} x=1"),
    ("env A=b TOKEN=c", f"env A=b TOKEN={MASK}"),
    ("--api-key=zzz9 --port 1", f"--api-key={MASK} --port 1"),
    ("password: 'two words' end", f"password: '{MASK}' end"),
    ("Authorization: Basic dXNlcjpwYXNz", f"Authorization: Basic {MASK}"),
    ("cut -----BEGIN RSA PRIVATE KEY-----\nabc", f"cut {MASK}"),
])
def test_secrets_in_texts_are_masked(text: str, wanted: str) -> None:
    assert mask_text(text) == wanted
    assert mask_text(wanted) == wanted


def test_names_that_hold_secrets_are_known() -> None:
    assert all(map(is_secret_name, ("HF_TOKEN", "ansible_become_pass", "apiKey", "AWS_SECRET_ACCESS_KEY", "vault_pass", "registry-auth", "private_key")))
    assert not any(map(is_secret_name, ("key", "tokens", "author", "pass", "compass", "ssh_user", "NCCL_NET", "mac")))


def test_masking_leaves_a_clean_report_as_it_is() -> None:
    report = make_report(run_of())
    assert mask_secrets(report) == report
    assert not re.search(re.escape(MASK), json.dumps(report))


def test_a_word_after_a_secret_name_is_masked_at_its_place_only() -> None:
    document = mask_secrets({"first": "auth: failed", "second": "the test failed", "third": "token: aB3dE5fG7", "fourth": "used aB3dE5fG7"})
    assert document == {"first": f"auth: {MASK}", "second": "the test failed", "third": f"token: {MASK}", "fourth": f"used {MASK}"}

# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Only what is missing is installed; an upgrade or removal that it would bring is refused; versions are remembered."""

from __future__ import annotations

import pytest
from ansible_collections.dgxspark.fabric.plugins.module_utils import node_packages
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import NOT_FOUND, Completed
from ansible_collections.dgxspark.fabric.plugins.module_utils.node_packages import Installer, PackagesError

SIMULATED = """\
Reading package lists...
Inst libibverbs1 [44.0-2] (50.0-2ubuntu0.2 Ubuntu:24.04/noble-updates [arm64])
Inst perftest (24.01.0+0.38-1build2 Ubuntu:24.04/noble [arm64])
Remv old-thing [1.0]
Conf perftest (24.01.0+0.38-1build2 Ubuntu:24.04/noble [arm64])
"""


class Apt:
    """apt-get that answers from a list."""

    def __init__(self, *answers: tuple[int, str, str]) -> None:
        self.answers, self.asked = list(answers), []

    def run(self, argv, timeout):
        self.asked.append(" ".join(argv))
        status, out, err = self.answers.pop(0) if self.answers else (0, "", "")
        return Completed(tuple(argv), status, out, err)


def test_installed():
    text = "ethtool\tinstalled\t1:6.7-1build1\nperftest\tnot-installed\t\nlibc6:arm64\tinstalled\t2.39\ngone\tconfig-files\t1.0\n"
    assert node_packages.parse_installed(text) == {"ethtool": "1:6.7-1build1", "libc6": "2.39"}


def test_steps():
    assert node_packages.parse_steps(SIMULATED) == (["perftest 24.01.0+0.38-1build2"], ["libibverbs1 44.0-2 -> 50.0-2ubuntu0.2"], ["old-thing"])


def test_an_upgrade_by_surprise_is_refused():
    with pytest.raises(PackagesError, match=r"would also upgrade libibverbs1 44.0-2 -> 50.0-2ubuntu0.2; remove old-thing.*fabric_packages: false"):
        Installer(Apt((0, SIMULATED, "")).run).plan(["perftest"])


def test_lists_are_fetched_only_where_they_lack_a_package():
    apt = Apt((0, "Inst perftest (1 x)\n", ""))
    assert Installer(apt.run, ["Acquire::http::Proxy=http://mirror:3142"]).plan(["perftest"]) == ["perftest 1"]
    assert len(apt.asked) == 1 and "-o Acquire::http::Proxy=http://mirror:3142" in apt.asked[0] and "--no-upgrade" in apt.asked[0]
    apt = Apt((100, "", "E: Unable to locate package perftest"), (0, "", ""), (0, "Inst perftest (1 x)\n", ""))
    assert Installer(apt.run).plan(["perftest"]) == ["perftest 1"] and apt.asked[1].endswith("update")


def test_no_internet_says_what_to_do():
    apt = Apt((100, "", "E: Unable to locate package perftest"), (100, "", "E: Failed to fetch http://x"), (100, "", "E: Unable to locate package perftest"))
    with pytest.raises(PackagesError, match=r"perftest cannot be installed: E: Unable to locate package perftest E: Failed to fetch .*packages_apt_options"):
        Installer(apt.run).plan(["perftest"])


def test_no_debian():
    with pytest.raises(PackagesError, match="Debian and Ubuntu only"):
        node_packages.installed(lambda argv, timeout: Completed(tuple(argv), NOT_FOUND, "", ""), ["x"])


def test_versions_against_what_was_provisioned(tmp_path):
    directory = str(tmp_path / "state")
    assert node_packages.read_record(directory) == {}
    node_packages.write_record({"perftest": "1", "nccl": "2.30.7"}, directory)
    recorded = node_packages.read_record(directory)
    assert node_packages.drift("s", ["perftest"], {"perftest": "1", "nccl": "2.30.7"}, recorded) == []
    found = node_packages.drift("s", ["perftest", "iperf3"], {"nccl": "2.31.2"}, recorded)
    assert [(entry["subject"], entry["key"], entry["wanted"], entry["live"]) for entry in found] == [
        ("perftest", "package", "1", "missing"), ("iperf3", "package", "installed", "missing"), ("nccl", "version", "2.30.7", "2.31.2")]

# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each role's argument specification says the same as its defaults, and its README names every option."""

from __future__ import annotations

import pathlib

import pytest

yaml = pytest.importorskip("yaml")

ROLES = sorted(path for path in (pathlib.Path(__file__).resolve().parents[2] / "roles").iterdir() if path.is_dir())


def options(role: pathlib.Path, entry_point: str = "main") -> dict[str, dict]:
    """Return the options of a role's entry point."""
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text(encoding="utf-8"))
    return specs["argument_specs"][entry_point].get("options", {})


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_defaults_equal_argument_specs(role: pathlib.Path) -> None:
    path = role / "defaults/main.yml"
    defaults = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path.exists() else {}
    specified = {name: option["default"] for name, option in options(role).items() if "default" in option}
    # A default that is an expression over another variable has no place in a specification, whose defaults are values of the option's type.
    expressions = {name for name, default in defaults.items() if isinstance(default, str) and "{{" in default}
    assert {name: default for name, default in defaults.items() if name not in expressions} == specified
    assert expressions <= set(options(role))


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_options_are_named_for_the_role_and_in_its_readme(role: pathlib.Path) -> None:
    readme = (role / "README.md").read_text(encoding="utf-8")
    for name in options(role):
        assert name.startswith(f"{role.name}_"), f"{name} is not named for role {role.name}"
        assert f"`{name}`" in readme, f"{role.name}/README.md does not mention {name}"

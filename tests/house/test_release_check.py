"""``make release-check``: licences, known vulnerabilities, one version."""

from __future__ import annotations

import pytest


@pytest.fixture
def check(load_script):
    """Load the script."""
    return load_script("release_check")


@pytest.mark.parametrize(
    ("metadata", "licence", "is_free"),
    [
        ({"license_expression": "Apache-2.0 OR BSD-3-Clause"}, None, True),
        (
            {"classifier": ["License :: OSI Approved :: MIT License"]},
            "MIT License",
            True,
        ),
        (
            {"license": "BSD 3-Clause License\n\nCopyright"},
            "BSD 3-Clause License",
            True,
        ),
        ({"license_expression": "MIT", "license": "a text"}, "MIT", True),
        ({"classifier": ["License :: OSI Approved :: GNU GPLv3"]}, "GNU GPLv3", False),
        ({"license_expression": "LGPL-3.0 OR MIT"}, None, False),
        ({}, "", False),
    ],
)
def test_licence_of_a_dependency_is_known_and_free(check, metadata, licence, is_free):
    """Copyleft and unknown ones are reported, in whichever field they are."""
    data = {"name": "x", "version": "1", **metadata}
    own = {"name": "kafkaguard", "version": "0"}
    report = {"install": [{"metadata": data}, {"metadata": own}]}
    (found,) = check.read_dependencies(report)
    assert found.licence == (licence or metadata.get("license_expression", ""))
    assert found.is_free is is_free


def test_vulnerable_and_unaudited_dependencies_are_problems(check):
    """What the audit skipped is not known to be good."""
    audit = {
        "dependencies": [
            {"name": "good", "version": "1", "vulns": []},
            {
                "name": "bad",
                "version": "2",
                "vulns": [{"id": "CVE-1", "fix_versions": ["2.1"]}],
            },
            {"name": "hidden", "skip_reason": "not found"},
        ]
    }
    assert list(check.find_problems(audit)) == [
        "bad 2: CVE-1, mended in 2.1",
        "hidden was not audited: not found",
    ]


def test_version_is_the_same_everywhere(check):
    """In the code, the citation and the changelog."""
    assert list(check.check_version()) == []

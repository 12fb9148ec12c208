"""Packaging: the folders of this tree become four top-level Python packages."""

from setuptools import find_packages, setup

PLACES = {"mgr_module": "wcache", "osd_probe": "wcache_probe", "cli": "wcache_cli"}

packages = [
    name
    for folder, root in PLACES.items()
    for name in find_packages(folder, include=[root, root + ".*"])
]

setup(
    packages=packages,
    # cli/wcache_cli/templates is a link to templates/, so that one path holds in a tree,
    # a wheel and a zipapp
    package_data={
        "wcache": ["web/templates/*.j2", "deployment/*.j2"], "wcache_cli": ["templates/*.j2"],
    },
    package_dir={root: f"{folder}/{root}" for folder, root in PLACES.items()},
)

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
    package_dir={root: f"{folder}/{root}" for folder, root in PLACES.items()},
)

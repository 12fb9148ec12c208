from setuptools import setup, find_packages


setup(
    name='wcache-probe',
    version='1.0.0',
    packages=find_packages(include=('wcache_probe*',)),
    description='Reads and toggles the write caches of OSD drives, under leases of mgr/wcache',
    license='LGPLv2+',
    url='https://github.com/ceph/ceph',
    zip_safe=False,
    install_requires='ceph',
    entry_points={
        'console_scripts': [
            'wcache-probe = wcache_probe.main:main',
        ],
    },
    classifiers=[
        'Environment :: Console',
        'Intended Audience :: System Administrators',
        'Operating System :: POSIX :: Linux',
        'License :: OSI Approved :: GNU Lesser General Public License v2 or later (LGPLv2+)',
        'Programming Language :: Python :: 3.9',
    ]
)

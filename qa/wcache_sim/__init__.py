"""Simulated drives and OSDs: the whole product runs on them with no hardware.

`drive_schema` reads a TOML file of drive models, `placement` deals its drives to
hosts and OSDs, `physics` says what each command of a drive costs and what a power cut
would lose, `osd` says what an OSD's commit costs at each load point.  All of it runs
in virtual time: the caller passes the time and gets a latency back.

`host` is a probe's host of such drives, and `probe` starts the probe on it.
"""

# `make demo` and `make test` do all of their own set-up; see README.md.
SHELL := /bin/sh
RELEASE ?= 20
# Modules and tests are compiled once, also where the environment says otherwise: each run,
# and each process that a test starts, would compile all of them anew.
COMPILED = PYTHONDONTWRITEBYTECODE= \
    PYTHONPYCACHEPREFIX="$${XDG_CACHE_HOME:-$$HOME/.cache}/wcache/compiled"
# Which examples hypothesis tries (qa/examples.py): a quarter, or "random" (all, new each time).
EXAMPLES ?= quarter

# As Ceph's src/pybind/mgr/tox.ini has it; qa/ceph_ci/tests/test_series.py asks that very file.
CEPHS_FLAKE8 = --isolated --max-line-length=100 --ignore=E501,W503

.PHONY: bench bench-decision bench-fleet bench-memory bench-walks ceph-series cephadm chaos check \
    debs demo flake8 fuzz house lab powercuts rpms test test-all test-ceph-ci \
    test-ceph-ci-short test-cephadm test-cephadm-short test-cluster test-lab test-lab-all \
    test-mutations shapes test-packages test-packages-short test-release-16 test-release-18 \
    test-release-20 test-releases test-rotating test-simulations test-slow test-surface \
    simulate-fleet simulate-fleet-short test-statistics test-timers wheels zipapps

flake8:
	@qa/flake8_changed.sh $(CEPHS_FLAKE8) -- mgr_module qa/tasks qa/mgr_fakes \
	    qa/bench_decision qa/wcache_sim

# flake8 and mypy run beside the tests, of which some only wait.
check:
	@venv=$$(qa/venv.sh) && "$$venv/bin/ruff" check . && { \
	{ $(MAKE) --no-print-directory flake8 && "$$venv/bin/mypy"; } & \
	lints=$$!; WCACHE_EXAMPLES=$(EXAMPLES) $(COMPILED) "$$venv/bin/python" -m pytest -m "not slow" \
	    -n 2 --dist worksteal; tests=$$?; \
	wait $$lints || { echo "flake8 or mypy found something: see above" >&2; exit 1; }; exit $$tests; }

# The real-cluster tests on one release: make test-cluster RELEASE=18
CLUSTER_TESTS ?= cluster and not long
test-cluster:
	@RELEASE=$(RELEASE) "$$(qa/venv.sh)/bin/python" -m pytest -m "$(CLUSTER_TESTS)" vstart-tests

# A cluster of cephadm on machines of its own, to look at: make cephadm [HOSTS=2].  It says how
# to talk to it and how to stop it.  Its tests: the page's route, and life under cephadm.
cephadm:
	@vstart-tests/cephadm_rig/rig start --hosts $(or $(HOSTS),2)

test-cephadm:
	@"$$(qa/venv.sh)/bin/python" -m pytest -s -m cephadm vstart-tests/cephadm

# On one host: the page up to the first recommendation, and a probe killed in a lease.  It is
# skipped, with the reason, where this machine does not let machines run in namespaces.
test-cephadm-short:
	@HOSTS=1 timeout -k 60 1500 "$$(qa/venv.sh)/bin/python" -m pytest -s -rs \
	    -m "cephadm and not long" vstart-tests/cephadm

# On 20 all of them; on 16 and 18 those with something in them that differs between releases
# (make test-releases EACH=cluster: all).  One after the other: three clusters at once on two
# cores measure too little of anything, mClock's capacities above all.
EACH ?= cluster and not one_release and not long
test-releases:
	@qa/venv.sh >/dev/null
	@$(MAKE) --no-print-directory test-release-20 test-release-18 test-release-16

test-release-20:
	@$(MAKE) --no-print-directory test-cluster RELEASE=20

test-release-16 test-release-18:
	@$(MAKE) --no-print-directory test-cluster RELEASE=$(@:test-release-%=%) \
	    CLUSTER_TESTS="$(EACH)"

# What Ceph's CI does, by its own vstart.sh, vstart_runner.py and teuthology, on 20 and then on 18.
test-ceph-ci:
	@RELEASE=20 "$$(qa/venv.sh)/bin/python" -m pytest -rs -m ceph_ci qa/ceph_ci/tests
	@RELEASE=18 "$$(qa/venv.sh)/bin/python" -m pytest -rs -m ceph_ci qa/ceph_ci/tests/test_suite.py

# Of these the main job on 20.  It says why where a machine cannot do that.
test-ceph-ci-short:
	@RELEASE=20 "$$(qa/venv.sh)/bin/python" -m pytest -rs -m "ceph_ci and not long" qa/ceph_ci/tests

# The series of patches for Ceph: out/ceph-series/*.patch.
ceph-series:
	@PYTHONPATH=qa:mgr_module:osd_probe:vstart-tests "$$(qa/venv.sh)/bin/python" -m ceph_ci \
	    out/ceph-series

# The main job on drives whose caches really toggle: make demo RELEASE=16|18|20; KEEP=1 leaves
# all of it running.
demo:
	@RELEASE=$(RELEASE) KEEP=$(KEEP) PYTHONDONTWRITEBYTECODE=1 \
	PYTHONPATH=qa:osd_probe:mgr_module:vstart-tests /usr/bin/python3 -m drive_lab.demo

# A campaign over modelled drives: make lab DRIVES=qa/drive_models/lab.toml OUT=/tmp/out
LAB_ARGS ?=
lab:
	@PYTHONPATH=qa:osd_probe:mgr_module:vstart-tests "$$(qa/venv.sh)/bin/python" -m drive_lab \
	    "$(DRIVES)" "$(OUT)" --release $(RELEASE) $(LAB_ARGS)

# What switches, crashes and power cuts do to drives that really have a cache, in a QEMU
# guest.  test-lab-all also does what takes longer: OSDs on LVM and dm-crypt, unplugging,
# persistence over power cycles, and every proof on every transport and in both directions.
test-lab:
	@WCACHE_TURNS=$(LAB_TURNS) "$$(qa/venv.sh)/bin/python" -m pytest -m "lab and not long" \
	    qa/drive_lab/tests

test-lab-all:
	"$$(qa/venv.sh)/bin/python" -m pytest -m lab qa/drive_lab/tests

# Power cuts of drives in the middle of what wcache does to them: nothing that fdatasync has
# acknowledged may be lost.  make powercuts ROUNDS=1000 [SEED=s] [ROUND=n: only that one]
ROUNDS ?= 1000
powercuts:
	@PYTHONPATH=qa:osd_probe:mgr_module:qa/drive_lab/tests/worlds:osd_probe/tests/worlds \
	    "$$(qa/venv.sh)/bin/python" -m drive_lab.powercuts --rounds $(ROUNDS) \
	    --release $(RELEASE) $(if $(SEED),--seed $(SEED)) $(if $(ROUND),--round $(ROUND))

# Work and faults at once on a real cluster of 20, round by round, and after each a look at what is
# left: make chaos ROUNDS=50 [SEED=s] [PART=2/5: every fifth, from the second] [ROUND=n: only that
# one] [GUEST=0: no guest as the third host] [FAULT=name: break the code in a copy first]
chaos: ROUNDS = 50
chaos:
	@PYTHONPATH=qa:osd_probe:mgr_module:vstart-tests "$$(qa/venv.sh)/bin/python" -m chaos \
	    --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED)) $(if $(PART),--part $(PART)) \
	    $(if $(ROUND),--round $(ROUND)) $(if $(filter 0,$(GUEST)),--no-guest) \
	    $(if $(FAULT),--fault $(FAULT))

# Figures of this machine, printed and never asserted: make bench RELEASE=20 FORMAT=json
bench:
	@RELEASE=$(RELEASE) FORMAT=$(FORMAT) PYTHONDONTWRITEBYTECODE=1 \
	PYTHONPATH=qa:vstart-tests:mgr_module /usr/bin/python3 -m bench

# What a fleet costs the mgr, without Ceph: make bench-fleet [HOSTS=1000] [FORMAT=json]; of a large
# one only what runs beside some commands: [BESIDE="mclock recommend,page /memory"]
bench-fleet:
	@HOSTS=$(HOSTS) BESIDE="$(BESIDE)" FORMAT=$(FORMAT) PYTHONPATH=qa:mgr_module \
	    "$$(qa/venv.sh)/bin/python" -m bench.fleet

# What age bins predict of smaller memory targets, beside what is measured there on the same trace
# of accesses: make bench-memory [SEED=1] [FORMAT=json]
bench-memory:
	@SEED=$(SEED) FORMAT=$(FORMAT) PYTHONPATH=qa:mgr_module "$$(qa/venv.sh)/bin/python" \
	    -m bench_memory

# How many functions and files usual things enter, on Python 3.11: make bench-walks [FORMAT=json];
# with these and more, how large and how tangled the module is: make house [FORMAT=json]
WALKS_PATH = qa:mgr_module:osd_probe:vstart-tests:mgr_module/tests/worlds
bench-walks:
	@FORMAT=$(FORMAT) PYTHONPATH=$(WALKS_PATH) "$$(qa/venv.sh)/bin/python" -m bench.walks

house:
	@FORMAT=$(FORMAT) PYTHONPATH=$(WALKS_PATH) "$$(qa/venv.sh)/bin/python" -m house

# Rollouts of all drives of a fleet, judged by clients' load, and fleets that grow under `auto
# apply`: in virtual time on the module's real code, with faults.
# make simulate-fleet [OSDS=n] [SEEDS=n] [SEED=s: only that one] [JOBS=2]
#                     [WHAT=judged|growing|living]
simulate-fleet:
	@OSDS=$(OSDS) SEEDS=$(SEEDS) SEED=$(SEED) JOBS=$(JOBS) WHAT=$(WHAT) PYTHONPATH=qa:mgr_module \
	    "$$(qa/venv.sh)/bin/python" -m fleet_simulation

simulate-fleet-short:
	@$(MAKE) --no-print-directory simulate-fleet WHAT=judged OSDS=400 SEEDS=11
	@$(MAKE) --no-print-directory simulate-fleet WHAT=growing OSDS=20 SEEDS=8

zipapps:
	@/usr/bin/python3 packaging/zipapps.py out

# Packages for Debian's or an EL's package manager (packaging/README.md): out/*.deb, out/*.rpm.
debs rpms:
	@/usr/bin/python3 packaging/build_packages.py $(@:s=) out

# What apt does with them on fresh hosts of each Debian that has a Ceph of ours; test-packages
# also follows the guide there, with a real cluster.
test-packages:
	@"$$(qa/venv.sh)/bin/python" -m pytest -s -m packages qa/packages_lab/tests

test-packages-short:
	@"$$(qa/venv.sh)/bin/python" -m pytest -m "packages and not long" qa/packages_lab/tests

# The same commit gives the same wheel: its times are those of the commit.
wheels:
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) "$$(qa/venv.sh)/bin/python" -m pip wheel \
	    --quiet --disable-pip-version-check --no-deps --wheel-dir out .
	@ls out/*.whl

# Promises of the statistics that need thousands of experiments; what times real devices
# comes after them, by itself.
TIMED = qa/statistics/test_timer.py qa/statistics/test_matrix_on_loop.py
test-statistics: test-simulations test-timers

SIMULATIONS ?= not long
test-simulations:
	@WCACHE_TURNS=$(SIMULATIONS_TURNS) $(COMPILED) "$$(qa/venv.sh)/bin/python" -m pytest \
	    -m "$(SIMULATIONS)" -n 2 --dist worksteal qa/statistics $(addprefix --ignore=,$(TIMED))

# What `make check` leaves out: tests that compute for a quarter of a second or more, which play
# whole rollouts, start probes, or try everything.  SLOW_TURNS=6 does a sixth, by the commit.
SLOW ?= slow and not long
test-slow:
	@venv=$$(qa/venv.sh) && WCACHE_EXAMPLES=$(EXAMPLES) WCACHE_TURNS=$(SLOW_TURNS) $(COMPILED) \
	    "$$venv/bin/python" -m pytest -m "$(SLOW)" -n 2 --dist worksteal

test-timers:
	@$(COMPILED) "$$(qa/venv.sh)/bin/python" -m pytest $(TIMED)

# One of 16, 18, Ceph's runner, packages and cephadm, by the commit: see qa/rotation.py.
test-surface:
	@stage=$$("$$(qa/venv.sh)/bin/python" qa/rotation.py --stage) && \
	    $(MAKE) --no-print-directory "$$stage"

# One of the long tests on real clusters or drives, by the commit.
test-rotating:
	@"$$(qa/venv.sh)/bin/python" qa/rotation.py

# Takes the protections of acknowledged data away one by one (qa/mutations/lists),
# each in a copy of the project, and demands that a test fails.  WORDS="journal" does some, and
# TURNS=24 every twenty-fourth one, by the commit.
test-mutations:
	@TURNS=$(TURNS) PYTHONPATH=qa "$$(qa/venv.sh)/bin/python" -m mutations $(WORDS)

# Every parser of outside input, by libFuzzer (atheris): make fuzz SECONDS=600 for all of them, or
# TARGETS="journal http".  A fault is a line that finds it again: make fuzz TARGETS=name INPUT=...
# CORPUS=folder keeps what was found new.
SECONDS ?= 20
fuzz:
	@PYTHONPATH=qa "$$(qa/venv.sh)/bin/python" -m fuzz --seconds $(SECONDS) \
	    $(if $(INPUT),--input "$(INPUT)") $(if $(CORPUS),--corpus "$(CORPUS)") $(TARGETS)

# The digests of the shapes of all that is stored or sent; says so where a number must rise first.
shapes:
	@PYTHONPATH=mgr_module:osd_probe:qa "$$(qa/venv.sh)/bin/python" -m shapes

# Whole experiments against simulated drives, scored by their truth:
# make bench-decision [DRIVES=file.toml] [TRIALS=20] [SEED=1] [FORMAT=json]
bench-decision:
	@PYTHONPATH=mgr_module:osd_probe:cli:qa "$$(qa/venv.sh)/bin/python" -m bench_decision \
	    $(if $(DRIVES),--drives "$(DRIVES)") $(if $(TRIALS),--trials "$(TRIALS)") \
	    $(if $(SEED),--seed "$(SEED)") $(if $(FORMAT),--format "$(FORMAT)")

# Stages, and what they are beside each other: see qa/stages.py.  A guest without KVM keeps little
# more than one processor busy, a cluster less than one, so each takes what the other leaves; what
# only computes (~) takes the rest of both at a low priority.  What times real devices is by
# itself.  A run does its part of what takes turns by the commit: all have theirs as commits go by.
STAGES = MAKE="$(MAKE)" "$$(qa/venv.sh)/bin/python" qa/stages.py

test:
	@$(STAGES) TURNS=24 LAB_TURNS=5 SLOW_TURNS=6 SIMULATIONS_TURNS=6 \
	    "+test-lab +test-surface +test-rotating | +test-release-20 ~test-mutations | \
	    ~+check ~fuzz ~+test-slow ~+test-simulations ~simulate-fleet-short" test-timers

# The same in its long forms: every test on every release, and the whole drive lab.  Its long
# campaigns need a machine of their own, so each stage is by itself.
test-all:
	@$(STAGES) EXAMPLES=random EACH=cluster CLUSTER_TESTS=cluster SIMULATIONS= SLOW=slow \
	    check test-slow test-packages test-mutations test-statistics simulate-fleet \
	    test-releases test-cephadm test-ceph-ci test-lab-all

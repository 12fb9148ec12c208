"""What the module may ask of Ceph, and what it may read of an answer: data, no code of ours.

Unit tests note all that the module asks and reads (`watch.py`), and fail where it is not here.
`vstart-tests/test_contracts.py` holds every line against the real releases.

An answer is described by paths: `[]` is each item of a list, `*` each value of an object.  A
text with paths below it holds JSON.  What follows the type:
`some`: at least one of those places has it;
`?`: nobody on a test cluster has it, or not always;
numbers: only these releases have it.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

Paths = Mapping[str, str]

# Attributes of MgrModule, and methods with their arguments.  What `module.py` uses beside, mypy
# holds to the stub of it.
METHODS: Dict[str, Tuple[str, ...]] = {
    "module_name": (),
    "log": (),
    "version": (),
    "get": ("data_name",),
    "list_servers": (),
    "get_counter": ("svc_type", "svc_name", "path"),
    "get_unlabeled_counter": ("svc_type", "svc_name", "path"),
    "get_store": ("key",),
    "get_store_prefix": ("key_prefix",),
    "get_ceph_option": ("key",),
    "get_foreign_ceph_option": ("entity", "key"),
    "get_module_option_ex": ("module", "key", "default"),
    "get_module_option": ("key", "default"),
    "get_localized_module_option": ("key", "default"),
    "get_mgr_id": (),
    "get_mgr_ip": (),
    "set_uri": ("uri",),
    "set_health_checks": ("checks",),
    "send_command": ("result", "svc_type", "svc_id", "command", "tag", "inbuf"),
    "cluster_log": ("channel", "priority", "message"),
    "remote": ("module_name", "method_name"),
}

# What a method is asked here, and what it answers.  `get` may be asked nothing else.
CALLS: List[Tuple[str, Tuple[Any, ...], Paths]] = [
    ("get", ("osd_map",), {
        "fsid": "str", "flags": "str",
        "osds/[]/osd": "int", "osds/[]/up": "int", "osds/[]/in": "int",
        "osds/[]/uuid": "str", "osds/[]/up_from": "int", "osds/[]/state/[]": "str",
        "pools/[]/type": "int", "pools/[]/crush_rule": "int", "pools/[]/pool_name": "str",
        "pools/[]/size": "int", "pools/[]/min_size": "int",
        "pg_temp/[]/pgid": "str ?", "pg_temp/[]/osds/[]": "int ?",
        "pg_upmap_items/[]/pgid": "str ?", "pg_upmap_items/[]/mappings/[]/to": "int ?",
        "crush_node_flags/*/[]": "str some", "device_class_flags/*/[]": "str ?",
        "stretch_mode/degraded_stretch_mode": "int",
        "stretch_mode/recovering_stretch_mode": "int",
    }),
    ("get", ("osd_metadata",), {
        "*/hostname": "str", "*/default_device_class": "str", "*/ceph_version_short": "str",
        "*/bluefs_dedicated_db": "str", "*/bluefs_dedicated_wal": "str",
        "*/bluestore_bdev_rotational": "str", "*/rotational": "str",
        "*/bluestore_min_alloc_size": "str", "*/bluestore_bdev_support_discard": "str",
        "*/container_image": "str ?",  # in containers
        "*/pod_namespace": "str ?",  # in Kubernetes
    }),
    ("get", ("osd_map_crush",), {
        "devices/[]/id": "int", "devices/[]/class": "str some",
        "buckets/[]/id": "int", "buckets/[]/name": "str", "buckets/[]/type_name": "str",
        "buckets/[]/items/[]/id": "int",
        "rules/[]/rule_id": "int", "rules/[]/steps/[]/op": "str some",
        "rules/[]/steps/[]/type": "str some",
    }),
    ("get", ("health",), {
        "json/checks/*/severity": "str", "json/checks/*/muted": "bool",
        "json/checks/*/summary/message": "str", "json/checks/*/summary/count": "int",
        "json/checks/*/detail/[]/message": "str some",
    }),
    ("get", ("pg_summary",), {"all/*": "int", "by_osd/*/*": "int"}),
    ("get", ("mgr_map",), {"services/*": "str some"}),  # some: of modules that have a page
    ("get", ("osd_stats",), {
        "osd_stats/[]/osd": "int",
        "osd_stats/[]/perf_stat/commit_latency_ms": "number",
        "osd_stats/[]/perf_stat/apply_latency_ms": "number",
    }),
    ("list_servers", (), {"[]/hostname": "str", "[]/services/[]/type": "str"}),
    ("get_counter", ("osd", "0", "bluestore.commit_lat"), {"*/[]/[]": "number 16"}),
    ("get_counter", ("osd", "0", "bluestore.txc_commit_lat"), {"*/[]/[]": "number 18"}),
    ("get_unlabeled_counter", ("osd", "0", "bluestore.txc_commit_lat"), {
        "*/[]/[]": "number 20",
    }),
    ("get_counter", ("osd", "0", "osd.numpg"), {"*/[]/[]": "number 16 18"}),
    ("get_unlabeled_counter", ("osd", "0", "osd.numpg"), {"*/[]/[]": "number 20"}),
    ("get_ceph_option", ("osd_op_queue",), {"": "str"}),
    ("get_foreign_ceph_option", ("osd.0", "bluestore_slow_ops_warn_lifetime"), {"": "number 20"}),
    ("get_module_option_ex", ("orchestrator", "orchestrator", ""), {"": "str"}),
    ("get_store_prefix", ("",), {}),
]

# Methods that were renamed: who has which.
METHODS_ONLY = {"get_counter": (16, 18), "get_unlabeled_counter": (20,)}

# Of other modules, by `remote` and by the orchestrator's client: the arguments that are given.
REMOTE: Dict[str, Dict[str, Tuple[str, ...]]] = {
    "progress": {
        "update": ("ev_id", "ev_msg", "ev_progress", "refs", "add_to_ceph_s"),
        "complete": ("ev_id",),
        "fail": ("ev_id", "message"),
    },
    "orchestrator": {
        "get_hosts": (),
        "add_host_label": ("host", "label"),
        "remove_host_label": ("host", "label"),
    },
}

_COMMITS: Dict[str, str] = {
    "bluestore/kv_sync_lat": "", "bluestore/kv_commit_lat": "",
    "bluestore/commit_lat": "16", "bluestore/txc_commit_lat": "18 20",
    "bluestore/submit_lat": "16", "bluestore/txc_submit_lat": "18 20",
}
_AVERAGES: Dict[str, str] = {
    **_COMMITS, "bluestore/read_wait_aio_lat": "", "osd/op_w_process_latency": "",
    "osd/op_r_latency": "", "rocksdb/get_latency": "",
}
_COUNTS: Dict[str, str] = {
    "osd/op_w": "", "osd/op_rw": "", "osd/subop_w": "", "osd/op_w_in_bytes": "",
    "osd/op_rw_in_bytes": "", "osd/subop_w_in_bytes": "", "osd/recovery_ops": "",
    "bluestore/deferred_write_ops": "16", "bluestore/issued_deferred_writes": "18 20",
    "osd/l_osd_recovery_push_queue_latency/avgcount": "18 20",
    "bluestore/onode_hits": "", "bluestore/onode_misses": "",
    "bluestore/bluestore_buffer_hit_bytes": "16", "bluestore/buffer_hit_bytes": "18 20",
    "bluestore/bluestore_buffer_miss_bytes": "16", "bluestore/buffer_miss_bytes": "18 20",
    "bluestore/bluestore_write_big": "16", "bluestore/write_big": "18 20",
    "bluestore/bluestore_write_big_bytes": "16", "bluestore/write_big_bytes": "18 20",
    "bluestore/bluestore_write_small": "16", "bluestore/write_small": "18 20",
    "bluestore/bluestore_write_small_bytes": "16", "bluestore/write_small_bytes": "18 20",
    "bluestore-pricache/target_bytes": "", "bluestore-pricache/mapped_bytes": "",
    "bluestore-pricache/cache_bytes": "",
    **{
        f"bluestore-pricache:{cache}/{name}_bytes": ""
        for cache in ("meta", "kv", "kv_onode", "data")
        for name in ("reserved", *(f"pri{number}" for number in range(12)))
    },
}
_KNOB = "osd_memory_target"

# (whom, arguments with an example of each, what is answered): in this order on a real cluster.
# A command has no other arguments than these, and everything it must have.
COMMANDS: List[Tuple[str, Dict[str, Any], Paths]] = [
    ("mon", {"prefix": "config set", "who": "osd.0", "name": "osd_max_scrubs", "value": "2"}, {}),
    ("mon", {"prefix": "config dump"}, {
        "[]/section": "str", "[]/name": "str", "[]/value": "str", "[]/mask": "str",
    }),
    ("mon", {"prefix": "config rm", "who": "osd.0", "name": "osd_max_scrubs"}, {}),
    ("mon", {"prefix": "config-key set", "key": "contracts/inventory", "val": "INVENTORY"}, {}),
    ("mon", {"prefix": "config-key get", "key": "contracts/inventory"}, {"*/labels/[]": "str"}),
    ("mon", {"prefix": "config-key rm", "key": "contracts/inventory"}, {}),
    ("mon", {
        "prefix": "auth get-or-create", "entity": "client.contracts", "caps": ["mon", "allow r"],
    }, {}),
    ("mon", {
        "prefix": "auth caps", "entity": "client.contracts", "caps": ["mgr", "allow r"],
    }, {}),
    ("mon", {"prefix": "auth get", "entity": "client.contracts"}, {"[]/caps/*": "str"}),
    ("mon", {"prefix": "auth rm", "entity": "client.contracts"}, {}),
    ("mon", {"prefix": "osd ok-to-stop", "ids": ["0"]}, {}),
    ("mon", {"prefix": "mgr module disable", "module": "contracts"}, {}),
    ("osd", {"prefix": "config set", "var": _KNOB, "val": ["2147483648"]}, {}),
    ("osd", {"prefix": "config diff get", "var": _KNOB}, {
        f"diff/{_KNOB}/final": "str", f"diff/{_KNOB}/override": "str",
        "diff/bluefs_buffered_io/override": "bool ?",  # typed as the option is
    }),
    ("osd", {"prefix": "config unset", "var": _KNOB}, {}),
    ("osd", {"prefix": "config get", "var": _KNOB}, {"*": "str"}),
    ("osd", {"prefix": "heap", "heapcmd": "stats"}, {}),
    ("osd", {"prefix": "dump_mempools"}, {
        "mempool/by_pool/*/bytes": "int", "mempool/by_pool/*/items": "int",
    }),
    ("osd", {"prefix": "perf dump"}, {
        **{f"{name}/sum": f"number {only}" for name, only in _AVERAGES.items()},
        **{f"{name}/avgcount": f"int {only}" for name, only in _AVERAGES.items()},
        **{name: f"int {only}" for name, only in _COUNTS.items()},
    }),
    ("osd", {"prefix": "perf dump", "logger": "bluestore"}, {
        f"{name}/{part}": f"{kind} {only}" for name, only in _COMMITS.items()
        for part, kind in (("sum", "number"), ("avgcount", "int"))
    }),
    ("osd", {
        "prefix": "perf histogram dump", "logger": "osd",
        "counter": "op_w_latency_in_bytes_histogram",
    }, {
        "osd/op_w_latency_in_bytes_histogram/axes/[]/ranges/[]/min": "int some",
        "osd/op_w_latency_in_bytes_histogram/axes/[]/ranges/[]/max": "int some",
        "osd/op_w_latency_in_bytes_histogram/values/[]/[]": "int",
    }),
    ("osd", {"prefix": "bench", "count": 4096, "size": 4096}, {
        "elapsed_sec": "number", "bytes_written": "int",
    }),
    ("osd", {
        "prefix": "bench", "count": 4096, "size": 4096, "object_size": 4194304, "object_num": 10,
    }, {"elapsed_sec": "number", "bytes_written": "int"}),
]

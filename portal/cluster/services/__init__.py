"""Register nodes, hear from them, drain, resume and declare them dead."""

from portal.cluster.services.contact import (
    node_disk_note,
    node_events_expire,
    node_problems,
    node_seen,
    node_settled,
    node_touch,
    nodes_touch,
)
from portal.cluster.services.environments import environment_add, environment_change, environment_remove
from portal.cluster.services.health import (
    findings_overrule,
    gpu_cordon,
    gpu_resume,
    node_health_take,
    node_heartbeat_set,
)
from portal.cluster.services.joining import (
    gpu_type_upsert,
    join_token_create,
    join_token_revoke,
    node_hello,
    node_register,
)
from portal.cluster.services.operating import (
    node_declare_dead,
    node_describe,
    node_drain,
    node_resume,
    node_token_revoke,
    node_tuning,
)
from portal.cluster.services.sharing import gpu_mode_set, gpu_modes_balance, gpus_kept_by

__all__ = [
    "environment_add",
    "environment_change",
    "environment_remove",
    "findings_overrule",
    "gpu_cordon",
    "gpu_mode_set",
    "gpu_modes_balance",
    "gpu_resume",
    "gpu_type_upsert",
    "gpus_kept_by",
    "join_token_create",
    "join_token_revoke",
    "node_declare_dead",
    "node_describe",
    "node_disk_note",
    "node_drain",
    "node_events_expire",
    "node_health_take",
    "node_heartbeat_set",
    "node_hello",
    "node_problems",
    "node_register",
    "node_resume",
    "node_seen",
    "node_settled",
    "node_token_revoke",
    "node_touch",
    "node_tuning",
    "nodes_touch",
]

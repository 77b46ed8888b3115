"""A part's description for its node: the shapes of its specification, its code and its secrets."""

from rest_framework import serializers

from portal.nodes.serializers import PartKey


class SpecFile(serializers.Serializer):
    path = serializers.CharField(help_text="Below the job's directory.")
    sha256 = serializers.CharField(help_text="Its content is fetched by this hash.")
    size_bytes = serializers.IntegerField()
    executable = serializers.BooleanField()


class ArtefactRules(serializers.Serializer):
    """What of a part's files is sent to be kept."""

    patterns = serializers.ListField(
        child=serializers.CharField(),
        help_text="Of files below a relative working directory, besides those in $BERTH_ARTEFACTS.",
    )
    files = serializers.IntegerField(help_text="The most that are kept.")


class SpecCode(serializers.Serializer):
    git = serializers.CharField(help_text="URL of the repository.")
    ref = serializers.CharField(help_text="Branch, tag or commit; of a later attempt the commit of the first one.")
    submodules = serializers.BooleanField()
    schemes = serializers.ListField(child=serializers.CharField(), help_text="The ways that the operator allows now.")


class Secrets(serializers.Serializer):
    environment = serializers.DictField(child=serializers.CharField(), help_text="Variables of the command.")
    code = serializers.CharField(allow_blank=True, help_text="With which its code is fetched. Empty: nothing.")


class SpecWorldNode(serializers.Serializer):
    name = serializers.CharField()
    address = serializers.CharField()
    addresses = serializers.ListField(child=serializers.CharField(), help_text="All that its agent tells.")


class SpecWorld(serializers.Serializer):
    nodes = SpecWorldNode(many=True)
    port = serializers.IntegerField()
    gpus_total = serializers.IntegerField()


class Spec(PartKey):
    job = serializers.IntegerField(help_text="The job's number, as people see it.")
    job_key = serializers.CharField(
        help_text="The job's key, by which the node names its checkpoints. It never comes again."
    )
    name = serializers.CharField()
    tenant = serializers.CharField()
    tenant_id = serializers.IntegerField()
    unix_account = serializers.CharField(allow_null=True, help_text="The tenant's account, where a node has it.")
    user = serializers.CharField()
    command = serializers.CharField()
    files = serializers.DictField(child=serializers.CharField())
    upload = SpecFile(many=True, help_text="Files whose contents the node fetches by their hash.")
    working_directory = serializers.CharField(allow_null=True)
    environment = serializers.DictField(child=serializers.CharField())
    software = serializers.DictField(
        child=serializers.CharField(), help_text="One of environment, path, requirements; empty: the node's own."
    )
    code = SpecCode(help_text="The repository that is fetched before its command. Empty: none.")
    code_roots = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="Below one of these its working directory must lie in truth; null: it may lie anywhere.",
    )
    secrets = serializers.BooleanField(help_text="It has secrets, which the node asks for when it starts the command.")
    build_secrets = serializers.DictField(
        child=serializers.CharField(),
        help_text="Of its secrets' variables those that its build gets too, with the secrets' names.",
    )
    gpus = serializers.ListField(child=serializers.IntegerField())
    gpu_uuids = serializers.ListField(child=serializers.CharField())
    gpu_type = serializers.CharField(allow_null=True)
    gpu_compute = serializers.IntegerField(
        allow_null=True,
        min_value=1,
        max_value=1000,
        help_text="Thousandths of each of its GPUs, which others may share; null: it has them for itself.",
    )
    gpu_memory_mib = serializers.IntegerField(
        allow_null=True, min_value=1, help_text="The most that it may take of each of its GPUs; null: no limit."
    )
    cores = serializers.ListField(child=serializers.IntegerField())
    memory_mib = serializers.IntegerField(allow_null=True)
    disk_mib = serializers.IntegerField(
        allow_null=True,
        help_text="The most that its directories, logs and checkpoints may take on this node together; null: no limit.",
    )
    time_limit_s = serializers.IntegerField(allow_null=True)
    grace_s = serializers.IntegerField(help_text="Seconds from SIGTERM to SIGKILL.")
    world = SpecWorld()
    profile = serializers.BooleanField(
        help_text="It is a profile: to be run in a scratch directory with BERTH_PROFILE=1, for its time limit at most."
    )
    artefacts = ArtefactRules(allow_null=True, help_text="Null: nothing is kept.")
    epochs_before = serializers.IntegerField()
    log_limit_bytes = serializers.IntegerField()

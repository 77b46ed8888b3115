"""What a specification says of a part's files, docs/agent-protocol.md."""

from rest_framework import serializers


class ArtefactRules(serializers.Serializer):
    """What of a part's files is sent to be kept."""

    patterns = serializers.ListField(
        child=serializers.CharField(),
        help_text="Of files below a relative working directory, besides those in $BERTH_ARTEFACTS.",
    )
    files = serializers.IntegerField(help_text="The most that are kept.")

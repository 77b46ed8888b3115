"""The shapes of messages about artefacts, docs/agent-protocol.md."""

from __future__ import annotations

from rest_framework import serializers

from portal.nodes.serializers import PartKey
from portal.work.artefacts.services.taking import FILES_AT_ONCE, MOST_NOTES


class ArtefactFile(serializers.Serializer):
    """What cannot be kept of these is refused alone, not with the files beside it (`artefacts_told`)."""

    path = serializers.CharField(allow_blank=True, trim_whitespace=False)
    size = serializers.IntegerField(help_text="Bytes.")
    modified_ns = serializers.IntegerField(help_text="Nanoseconds since 1970.")


class ArtefactsRequest(PartKey):
    boot_id = serializers.CharField(max_length=64)
    files = ArtefactFile(many=True, max_length=FILES_AT_ONCE)
    gone = serializers.ListField(
        child=serializers.CharField(max_length=1024, trim_whitespace=False), max_length=FILES_AT_ONCE
    )
    notes = serializers.ListField(
        child=serializers.ListField(
            child=serializers.CharField(max_length=300, allow_blank=True, trim_whitespace=False),
            min_length=2,
            max_length=2,
        ),
        max_length=MOST_NOTES,
        allow_null=True,
        help_text="Files that the node does not send, [path, why] each; null: as before.",
    )
    notes_more = serializers.IntegerField(
        min_value=0, max_value=2**31, default=0, help_text="How many others there are beside `notes`."
    )


class ArtefactTaken(serializers.Serializer):
    path = serializers.CharField()
    state = serializers.ChoiceField(choices=["send", "kept", "refused"])
    offset = serializers.IntegerField(help_text="Where to go on sending.")
    detail = serializers.CharField(help_text="Why it is refused.")


class ArtefactsAnswer(serializers.Serializer):
    files = ArtefactTaken(many=True)


class ArtefactPieceAnswer(serializers.Serializer):
    next_offset = serializers.IntegerField()
    kept = serializers.BooleanField()

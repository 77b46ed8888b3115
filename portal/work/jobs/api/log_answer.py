"""REST's answers about a job's output."""

from __future__ import annotations

from rest_framework import serializers

from portal.work.jobs.log_reading import STREAMS


class LogSize(serializers.Serializer):
    attempt = serializers.IntegerField()
    rank = serializers.IntegerField()
    stream = serializers.ChoiceField(choices=STREAMS)
    bytes = serializers.IntegerField()


class OpenLine(serializers.Serializer):
    stream = serializers.ChoiceField(choices=STREAMS)
    text = serializers.CharField()


class JobLogAnswer(serializers.Serializer):
    """A piece of the output. `complete`: the attempt has ended, and this is the end of what it wrote."""

    attempt = serializers.IntegerField(allow_null=True, help_text="Null while no attempt has begun.")
    rank = serializers.IntegerField()
    stream = serializers.ChoiceField(choices=(*STREAMS, "both"))
    text = serializers.CharField(help_text="The output, as UTF-8. Bytes that are none become U+FFFD.")
    open = OpenLine(
        many=True,
        help_text="Of both streams: lines that have not ended, as they stand. They come again with their rest.",
    )
    next = serializers.CharField(help_text="Send this as `cursor` to get what follows.")
    offset = serializers.IntegerField(
        allow_null=True,
        help_text="Where the first byte of `text` stands in the stream. Null when both streams were asked for.",
    )
    next_offset = serializers.IntegerField(
        allow_null=True,
        help_text="Where the first byte after `text` stands in the stream. Null when both streams were asked for.",
    )
    complete = serializers.BooleanField()
    available = LogSize(many=True)

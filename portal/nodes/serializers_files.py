"""The shape of the uploaded files that a part brings."""

from rest_framework import serializers


class SpecFile(serializers.Serializer):
    path = serializers.CharField(help_text="Below the job's directory.")
    sha256 = serializers.CharField(help_text="Its content is fetched by this hash.")
    size_bytes = serializers.IntegerField()
    executable = serializers.BooleanField()

"""Any value in a command is one argument; a template where that would not hold is refused."""

import random
import subprocess

import pytest

from portal.foundation.errors import BerthError
from portal.planning.templating.document import document_read
from portal.planning.templating.filling import filled, values_read
from tests.portal.planning.templating.samples import one

SAFE = (
    "printf '%s\\0' ${{ x }}",
    'printf "%s\\0" ${{ x }}',
    "n=$(echo 1) && printf '%s\\0' ${{ x }} # it's a comment",
    "test -n \"${HOME:-x}\" ; ( printf '%s\\0' ${{x}} )",
    "if true; then # don't\n  printf '%s\\0' ${{ x }}\nfi",
    "a='$(x' b=\"it's $(echo ')' \"(\")\"; printf '%s\\0' ${{ x }}",
    "[ -n a ] && printf '%s\\0' ${{ x }} a[0]",
    "true a[0] [a-z] '[[:space:]]'; printf '%s\\0' ${{ x }}",
    "echo \\' >/dev/null; printf '%s\\0' ${{ x }}",
)
UNSAFE = (
    'echo "${{ x }}"',
    "echo '${{ x }}'",
    'echo "it\'s ${{ x }}"',
    "echo $(echo ${{ x }})",
    'echo "$(echo ${{ x }})"',
    "echo `echo ${{ x }}`",
    "echo ${y:-${{ x }}}",
    "echo $((1 + ${{ x }}))",
    "echo $[1 + ${{ x }}]",
    "[[ ${{ x }} -eq 1 ]]",
    "if [[\t1 -lt ${{ x }} ]]; then echo; fi",
    "counts[${{ x }}]=1",
    "unset counts[0] counts[ 1 + ${{ x }} ]",
    "cat <<END\n${{ x }}\nEND",
    "true # ${{ x }}",
    "echo \\${{ x }}",
    "echo $${{ x }}",
    "echo $'${{ x }}'",
    "sh -c 'echo ${{ x }}'",
    "echo \"${y:-'}\" '} \" ${{ x }} '",
    'echo "$(case a in a) echo \' ;; esac)" ${{ x }} \'"',
)
NASTY = (
    "$(id)",
    "`id`",
    "a'b\"c",
    "; rm -rf /",
    "a\\",
    "\n#",
    "*",
    "~",
    "-n",
    "${HOME}",
    "'; id; '",
    "é\t|&<>",
    "!!",
    "",
)


def command(template, value):
    read = document_read(one({"lines": True, "default": ""}, template))
    values, problems = values_read(read.parameters, {"x": value})
    assert problems == []
    return filled(read.job, read.parameters, values)["command"]


def test_a_shell_reads_the_value_as_one_argument(subtests):
    for template in SAFE:
        with subtests.test(template=template):
            rng = random.Random(7)
            drawn = [
                "".join(rng.choice("$`'\"\\ \n;&|<>(){}[]*?~#!=%aZ0é") for _ in range(rng.randint(1, 30)))
                for _ in range(15)
            ]
            for value in (*NASTY, *drawn):
                ran = subprocess.run(
                    ["/bin/sh", "-c", command(template, value)], capture_output=True, text=True, check=False
                )
                assert ran.stdout.split("\0")[0] == value, (template, value, ran.stderr)


def test_where_quoting_would_not_hold_the_template_is_refused(subtests):
    for template in UNSAFE:
        with subtests.test(template=template):
            with pytest.raises(BerthError) as caught:
                document_read(one({}, template))
            assert (caught.value.code, caught.value.field) == ("bad_reference", "job.command")
            assert "environment" in caught.value.detail


def test_without_parameters_a_command_may_hold_anything():
    for text in ("cat <<END\n$(id)\nEND", "echo `id` $((1+1))"):
        assert document_read({"name": "plain", "job": {"command": text}}).job["command"] == text

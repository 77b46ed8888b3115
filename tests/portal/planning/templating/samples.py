"""A job template for tests."""

from copy import deepcopy

TEXT = """\
name: train
title: Train a model
about: A training that saves its work.
parameters:
  - {name: lr, type: number, label: Learning rate, default: 0.1, least: 0.0001, most: 1, help: The step.}
  - {name: epochs, type: integer, default: 3, least: 1, most: 100}
  - {name: sizes, type: gpus, default: [1, 2], least: 1, most: 4}
  - {name: kind, type: choice, choices: [small, large], default: small}
  - {name: mixed, type: boolean, word: --mixed, default: false}
  - {name: note, type: text, default: ""}
job:
  name: train-${{ kind }}
  command: echo train --lr=${{ lr }} --epochs ${{ epochs }} ${{ mixed }} ${{ note }}
  gpus: ${{ sizes }}
  environment: {KIND: "${{ kind }}", LR: "${{ lr }}"}
  checkpointable: true
"""


def document(**changes):
    """The document of TEXT, with other top fields."""
    from portal.planning.templating.yaml_text import yaml_read

    return deepcopy(yaml_read(TEXT)) | changes


def one(parameter, command="echo ${{ x }}", **job):
    """A document with one parameter, `x` unless it says otherwise."""
    return {"name": "one", "parameters": [{"name": "x", **parameter}], "job": {"command": command, **job}}

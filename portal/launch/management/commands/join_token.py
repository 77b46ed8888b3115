"""`./berth join-token`: makes a join token and prints the command that makes another machine a node."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.cluster.services import joining
from portal.cluster.services.joining import join_line
from portal.foundation.errors import BerthError
from portal.foundation.layout import Layout, read_json
from portal.launch.operator import operator_account
from portal.people.tenants.models import User


class Command(BaseCommand):
    help = "Print the command to run on a machine that shall become a node. Its token works once, for one node, until it expires."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", help="the node's name (default: the machine's name)")
        parser.add_argument("--hours", type=float, default=24.0, help="hours until the token expires (default 24)")

    def handle(self, *_args: Any, **options: Any) -> None:
        if not 0 < options["hours"] <= 24 * 30:
            raise CommandError("--hours must be more than 0 and at most 720.")
        mode = read_json(Layout.at(settings.DATA_DIR).mode)
        if mode is None:
            raise CommandError("Berth has not been started on this data directory; run ./berth up first.")
        try:
            actor = operator_account()
            _, secret = joining.join_token_create(
                actor=actor, name=options["name"], expires_in_s=int(options["hours"] * 3600), uses=1
            )
        except User.DoesNotExist as error:
            raise CommandError("There is no operator yet; run ./berth up once.") from error
        except BerthError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(join_line(url=mode["base_url"], mode=mode, secret=secret, name=options["name"]))

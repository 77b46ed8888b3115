from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "portal.people.accounts"

    def ready(self) -> None:
        from portal.people.accounts.sessions import listen

        listen()

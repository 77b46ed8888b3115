from django.apps import AppConfig


class EstimationConfig(AppConfig):
    name = "portal.planning.estimation"
    label = "estimation"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from portal.cluster.followers import node_described
        from portal.planning.estimation.links import node_links_assume

        node_described.append(node_links_assume)

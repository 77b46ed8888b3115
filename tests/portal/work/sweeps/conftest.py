from tests.portal.work.artefacts.conftest import commits_at_once, data_dir

__all__ = ["commits_at_once", "data_dir"]

from portal.pages.dashboard.overview.nodes import Holder, group_cells


def cell(index):
    return {"index": index, "active": 1.0, "use_percent": 90.0, "memory_percent": None, "idle": False}


def test_neighbours_with_one_holder_make_one_group():
    train = Holder("train", 7, "/jobs/7/", "vision-lab")
    idle = Holder("idle 3 min")
    groups = group_cells(zip(map(cell, range(5)), [train, train, idle, idle, train], strict=True))
    assert [[each["index"] for each in group["cells"]] for group in groups] == [[0, 1], [2, 3], [4]]
    assert [group["job_id"] for group in groups] == [7, None, 7]


def test_no_gpus_make_no_groups():
    assert group_cells([]) == []

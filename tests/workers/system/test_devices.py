"""Which device files a job may not open, where GPUs are cut into instances."""

from workers.system.gpus import Devices


def test_an_instance_is_reached_by_the_file_of_its_gpu_and_by_no_other():
    devices = Devices({"GPU-a": "/dev/nvidia0", "GPU-b": "/dev/nvidia1"}, ("/dev/nvidia0", "/dev/nvidia1"))
    known = devices.with_instances({"MIG-1": "GPU-a", "MIG-2": "GPU-a", "MIG-3": "GPU-gone"})
    assert known.hidden_from({"gpu_uuids": ["MIG-1"]}) == ["/dev/nvidia1"]
    assert known.hidden_from({"gpu_uuids": ["GPU-b"]}) == ["/dev/nvidia0"]
    assert known.hidden_from({"gpu_uuids": ["MIG-3"]}) == ["/dev/nvidia0", "/dev/nvidia1"]
    assert devices.hidden_from({"gpu_uuids": ["MIG-1"]}) == ["/dev/nvidia0", "/dev/nvidia1"], (
        "what nobody knows is closed"
    )

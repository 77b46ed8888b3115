"""Several jobs on one GPU: who may join whom (Kube-Knots IV, DqnGPU 3; algorithms.md sections 11 and 12).

    series        rank correlation, autocorrelation, forecast of a series by its own past
    model         a job that asks to share, what its signature used, a shared GPU and who is on it
    board         all askers and all shared GPUs of a planning, in columns
    res_ag, cbp, peak   the policies, one file each: which GPUs an asker may join, and in which order they are tried
    dqn           DqnGPU's learned policy as one of them; `learned`: its network and its training
    sharing       one planning's sharing step: the driver that calls a policy

Pure: what is measured comes in as series, what is decided goes out as `Joined` and `Refused`.
"""

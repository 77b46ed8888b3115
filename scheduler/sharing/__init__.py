"""Several jobs on one GPU: which jobs may join others (Kube-Knots IV, DqnGPU 3; algorithms.md sections 11 and 12).

    series        rank correlation, autocorrelation, forecast of a series by its own past
    model         a job that asks to share, its signature's use, a shared GPU and its jobs
    board         all askers and all shared GPUs of a planning, in columns
    res_ag, cbp, peak   the policies, one file each: which GPUs an asker may join, and in which order they are tried
    dqn           DqnGPU's learned policy as one of them; `learned`: its network and its training
    sharing       one planning's sharing step: the driver that calls a policy

Pure: measurements come in as series, decisions go out as `Joined` and `Refused`.
"""

"""DqnGPU's learned co-placement (DqnGPU 3; algorithms.md section 12).

images    the use of a GPU and of the waiting jobs over the next steps, as the network's input, and which of them may start
paces     the joint progress of the jobs on one GPU, and which jobs gain by joining them
runs      a signature's measured use, in the steps of a policy
training  a multilayer perceptron in numpy with two heads, preferences and action values, and its update by eq. 2
crowds    the jobs on each shared GPU of a planning, and those that a network would start beside them
record    a policy's file: network, training record, and the state to go on from
"""

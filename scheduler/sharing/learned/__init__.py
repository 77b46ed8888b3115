"""DqnGPU's learned co-placement (DqnGPU 3; algorithms.md section 12).

images the use of a GPU and of the waiting jobs over the next steps, as the network's input masks which subsets of the waiting
jobs may start paces the joint progress of the jobs on one GPU, and which jobs gain by joining them network a multilayer
perceptron in numpy with two heads: preferences and action values training the modified update of eq. 2 over episodes, with a
target network seen a signature's measured use, in the steps of a policy record a policy's file: network, training record, and
the state to go on from
"""

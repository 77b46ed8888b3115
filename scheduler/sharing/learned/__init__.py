"""DqnGPU's learned co-placement (DqnGPU 3; algorithms.md section 12).

images     what a GPU and the waiting jobs will use over the next steps, as the network's input
masks      which subsets of the waiting jobs may start
paces      what jobs on one GPU get done together, and who gains by joining them
network    a multilayer perceptron in numpy with two heads: preferences and action values
training   the modified update of eq. 2 over episodes, with a target network
seen       what a signature was seen to use, in the steps of a policy
record     a policy's file: network, training record, and what is needed to go on
"""

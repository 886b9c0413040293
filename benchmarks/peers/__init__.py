"""FlowFabric's peers on the same server: the same no-op job, each system used as its own
documentation recommends.
"""

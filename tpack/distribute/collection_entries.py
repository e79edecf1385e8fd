"""A variable of several devices in the collections of a graph, in the place of its components."""

from tpack.distribute.variables.distributed import DistributedVariable


def replace_in_collections(variable: DistributedVariable) -> None:
    """Put a variable where its first component is in collections, and take the other components out of them.

    Args:
        variable: the variable, whose components are in the collections of its graph.

    Shapes:
        No tensors.

    Raises:
        Nothing.

    Source:
        The mirrored strategy that the seed ``distribute`` describes.
    """
    components = {id(component) for component in variable.components}
    for key in variable.graph.get_all_collection_keys():
        items = variable.graph.get_collection_ref(key)
        if any(id(item) in components for item in items):
            kept = [variable if item is variable.primary else item for item in items]
            items[:] = [item for item in kept if id(item) not in components]

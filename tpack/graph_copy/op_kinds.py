"""Kinds of operations, by their types: the only place in tpack with lists and patterns of operation types."""

import re

REFERENCE_VARIABLES = frozenset({"Variable", "VariableV2"})
VARIABLES = REFERENCE_VARIABLES | {"VarHandleOp"}
ASSIGNMENTS = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})
"""Assignments to a whole resource variable."""

OPTIMIZER_PREFIXES = ("ResourceApply", "ResourceSparseApply")
SCATTER_PREFIXES = ("ResourceScatter", "ResourceCountUpTo")
CHANGE_PREFIXES = ("Assign", "ResourceScatter", *OPTIMIZER_PREFIXES, "ResourceStridedSliceAssign")
"""How the types begin of operations that change a variable."""

OPTIMIZER_UPDATE = re.compile("(Resource|Sparse)*Apply")
SETTINGS_OF_UPDATES = frozenset(
    {"alpha", "beta1", "beta2", "epsilon", "l1", "l2", "l2_shrinkage", "lr", "lr_power", "momentum", "rho"}
)
"""Arguments of optimizers' operations besides variables and gradients."""

PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2"})
DEQUEUES = frozenset({"QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2"})
QUEUES = frozenset({"FIFOQueueV2", "PaddingFIFOQueueV2", "PriorityQueueV2", "RandomShuffleQueueV2"})
ITERATORS = frozenset({"IteratorGetNext", "OneShotIterator"})
TAKING_DATA = DEQUEUES | {"IteratorGetNext"}
COLLECTIVES = frozenset({"CollectiveReduce", "CollectiveReduceV2", "CollectiveReduceV3", "NcclAllReduce"})
TRANSFERS = frozenset({"_Recv", "_HostRecv", "_Send", "_HostSend"})
PYTHON = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
WAITING = PYTHON | {"IteratorGetNext", "Unstage", "CollectiveReduce", "CollectiveReduceV2", "CollectiveGatherV2"}
"""Operations that may wait for something outside the step, besides those of queues."""

READING_VARIABLES = frozenset(
    {"ReadVariableOp", "VarIsInitializedOp", "VariableShape", "Identity", "IsVariableInitialized"}
)
"""Users of a variable, or of a reference to it, that do not change it."""

READING_VALUES = frozenset({"ReadVariableOp", "ResourceGather", "ResourceGatherNd"})
PASSING_HANDLES = frozenset({"Enter", "Identity", "RefEnter", "Switch"})
SHARING_MEMORY = frozenset({"Identity", "PreventGradient", "Snapshot", "StopGradient"})
SHARING_MEMORY_RESHAPED = frozenset({"ExpandDims", "Reshape", "Squeeze"})
"""Operations whose result lies in the memory of their first input."""

READING = TAKING_DATA | {"Identity", "QueueSizeV2", "ReadVariableOp", "RefIdentity", "ResourceGather"}
READING |= {"ResourceGatherNd", "VarIsInitializedOp", "VariableShape"}
"""Users of resources that change no variable."""

OPAQUE = frozenset({"EagerPyFunc", "If", "PyFunc", "StatefulPartitionedCall", "While"})
"""Operations whose inputs do not show what they change."""

ENTERING_LOOPS = frozenset({"Enter", "RefEnter"})
LEAVING_LOOPS = frozenset({"Exit", "RefExit"})
LOOP_PARTS = ENTERING_LOOPS | LEAVING_LOOPS | {"NextIteration", "RefNextIteration"}
FRAME_CONTROL = LOOP_PARTS | {"Merge", "RefMerge", "Switch", "RefSwitch"}
"""Parts of the loops and conditions of TensorFlow 1."""

JOINING = frozenset({"Merge", "Exit"})
"""The ends of these conditions and loops."""

FUNCTION_CALLS = frozenset(
    {"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase", "PartitionedCall", "SymbolicGradient"}
    | {"StatefulPartitionedCall", "RemoteCall"}
)
CONTROL_FLOW = FRAME_CONTROL | FUNCTION_CALLS | {"LoopCond"}
"""Loops, conditions and functions, and their parts. XLA never compiles them as they stand in a graph: TensorFlow takes
them apart first, or leaves them where they pass lists of tensors, as loops do for their gradients."""

LIST_PREFIXES = ("TensorArray", "Stack")
LEFT_BY_XLA = frozenset(
    {"Assert", "CheckNumerics", "CheckNumericsV2", "Print", "PrintV2", "StringFormat", "NoOp", "ReadVariableOp"}
    | VARIABLES
    | PLACEHOLDERS
    | {"PlaceholderWithDefault"}
)
"""Operations with side effects, which XLA omits, and those that only hold, read or receive a value. Reading a variable
is often a piece of compiled code by itself, and one more to be started."""

DRAWING_WORDS = ("Random", "Multinomial", "TruncatedNormal", "StatefulUniform", "Rng")
"""Parts of the types of operations that draw: XLA would draw other numbers from the same seed."""

SHARED_BY_COPIES = frozenset(
    {"Assert", "Print", "PrintV2", "PyFunc", "EagerPyFunc", "PartitionedCall", "StatefulPartitionedCall", "If", "Case"}
    | {"While"}
)
"""Stateful for TensorFlow, though they keep nothing of their own from one step to the next."""

WITHOUT_STATE = re.compile(
    r"VarHandleOp|ReadVariableOp|.*VariableOp|VarIsInitializedOp|VariableShape|ResourceGather(Nd)?|ResourceScatter.*"
    r"|Resource.*Apply.*|Assert|Print(V2)?|Timestamp|CheckNumerics(V2)?|.*Summary(V2)?|Placeholder"
    r"|Random(Uniform|UniformInt|StandardNormal|Shuffle|Gamma|GammaGrad|Poisson(V2)?|Crop)|TruncatedNormal"
    r"|ParameterizedTruncatedNormal|Multinomial|StatelessRandom.*|StatelessTruncatedNormal.*|SampleDistortedBoundingBox"
    r"(V2)?|.*CandidateSampler|.*UnigramSampler|RandomShuffle|TensorArray\w*V3|TensorArrayV3|StatefulPartitionedCall|While"
    r"|If|Case|QueueDequeue.*|LookupTable(Find|Size)V2|IteratorGetNext.*|StackPushV2|StackPopV2"
)
"""Stateful for TensorFlow, though they keep nothing from one run to the next, or keep it in a variable or in something
made outside the tower, or keep only the position of their random numbers."""

ADDITIONS = frozenset({"Add", "AddV2", "AddN"})
MATRIX_PRODUCTS = frozenset({"BatchMatMul", "BatchMatMulV2", "MatMul"})
PRODUCTS = MATRIX_PRODUCTS | {"Conv2D", "Conv3D", "DepthwiseConv2dNative"}
# TensorFlow puts kernels of oneDNN, and joined ones, in the place of some.
NETWORK_KERNELS = re.compile("_?(Mkl)?(Native)?_?(Fused)?(Conv2D|MatMul|MaxPool|Relu|SparseSoftmax|BiasAdd)")
"""Beginnings of the types of operations that compute a network of convolutions in a graph that runs."""

PASSING_ON = frozenset({"CheckNumerics", "Identity", "StopGradient"})
"""Operations whose result at inference is their one input."""

STOPPING_GRADIENTS = frozenset({"StopGradient", "PreventGradient"})
TOP_K = frozenset({"InTopK", "InTopKV2"})
COMPARISONS = frozenset({"Equal", "NotEqual"})
SAME_VALUES = frozenset({"Cast", "Identity"})
SAME_SAMPLES = SAME_VALUES | {"LogicalNot", "Sub", "Reshape", "Squeeze"}
"""Operations whose result has the values, or an entry for each sample, of their input."""

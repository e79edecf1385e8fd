"""Modules that scripts import names from by the module's own name have all of these names."""

import importlib

import pytest

NAMES = {
    "callbacks.param": """GraphVarParam HumanHyperParamSetter HyperParam HyperParamSetter HyperParamSetterWithFunc
        ObjAttrParam ScheduledHyperParamSetter StatMonitorParamSetter""",
    "dataflow.common": """BatchData BatchDataByShape CacheData ConcatData FixedSizeData JoinData LocallyShuffleData
        MapData MapDataComponent PrintData RandomChooseData RandomMixData RepeatedData RepeatedDataPoint SelectComponent
        TestDataSpeed""",
    "models.common": "VariableHolder disable_layer_logging get_registered_layer layer_register",
    "train.tower": "SingleCostTrainer TowerTrainer",
    "utils.utils": "change_env execute_only_once fix_rng_seed get_rng get_tqdm humanize_time_delta",
    "tfutils.argscope": "argscope enable_argscope_for_function enable_argscope_for_module get_arg_scope",
    "tfutils.collect_env": "collect_env_info",
    "tfutils.collection": "backup_collection freeze_collection restore_collection",
    "tfutils.common": """get_default_sess_config get_global_step_value get_global_step_var get_op_or_tensor_by_name
        get_op_tensor_name get_tensors_by_names get_tf_version_tuple gpu_available_in_session""",
    "tfutils.dependency": "dependency_of_fetches dependency_of_targets",
    "tfutils.export": "ModelExporter",
    "tfutils.gradproc": """CheckGradient FilterNoneGrad GlobalNormClip GradientProcessor MapGradient PrintGradient
        ScaleGradient SummaryGradient""",
    "tfutils.model_utils": "describe_trainable_vars get_shape_str",
    "tfutils.optimizer": """AccumGradOptimizer PostProcessOptimizer ProxyOptimizer VariableAssignmentOptimizer
        apply_grad_processors""",
    "tfutils.scope_utils": "auto_reuse_variable_scope cached_name_scope under_name_scope",
    "tfutils.sesscreate": """NewSessionCreator ReuseSessionCreator SessionCreatorAdapter
        get_distributed_session_creator""",
    "tfutils.sessinit": """ChainInit DictRestore JustCurrentSession SaverRestore SaverRestoreRelaxed SessionInit
        SmartInit get_model_loader""",
    "tfutils.summary": """add_activation_summary add_moving_summary add_param_summary add_tensor_summary
        create_image_summary create_scalar_summary""",
    "tfutils.symbolic_functions": """accuracy batch_flatten class_balanced_sigmoid_cross_entropy flatten get_scalar_var
        guided_relu prediction_incorrect print_stat psnr rms saliency_map""",
    "tfutils.tower": """BaseTowerContext PredictTowerContext TowerContext TowerFunc TowerFuncWrapper TowerTensorHandle
        TowerTensorHandles get_current_tower_context""",
    "tfutils.varmanip": """SessionUpdate dump_session_params get_checkpoint_path get_savename_from_varname
        is_training_name load_checkpoint_vars load_chkpt_vars save_checkpoint_vars save_chkpt_vars""",
    "tfutils.varreplace": "custom_getter_scope freeze_variables remap_variables",
    "utils.argtools": """call_only_once graph_memoized log_once map_arg memoized memoized_ignoreargs memoized_method
        shape2d shape4d""",
    "utils.concurrency": """LoopThread ShareSessionThread StoppableThread ensure_proc_terminate
        start_proc_mask_signal""",
    "utils.debug": "enable_call_trace",
    "utils.fs": "download get_dataset_path mkdir_p normpath recursive_walk",
    "utils.gpu": "NVMLContext change_gpu get_nr_gpu get_num_gpu",
    "utils.logger": """addFilter auto_set_dir critical debug error exception get_logger_dir info setLevel set_logger_dir
        warn warning""",
    "utils.palette": "PALETTE_RGB",
    "utils.serialize": "dumps loads",
    "utils.stats": "Accuracy BinaryStatistics OnlineMoments RatioCounter StatCounter",
    "utils.timer": "print_total_timer timed_operation total_timer",
    "utils.viz": """draw_boxes draw_text dump_dataflow_images gen_stack_patches intensity_to_rgb interactive_imshow
        stack_patches""",
}


@pytest.mark.parametrize("module", NAMES)
def test_names_are_there_and_public(module: str) -> None:
    loaded = importlib.import_module(f"tpack.{module}")
    names = NAMES[module].split()
    assert [name for name in names if not hasattr(loaded, name)] == []
    if hasattr(loaded, "__all__"):
        assert set(names) <= set(loaded.__all__)


def test_a_second_name_is_the_same_thing() -> None:
    tower = importlib.import_module("tpack.tfutils.tower")
    varmanip = importlib.import_module("tpack.tfutils.varmanip")
    gpu = importlib.import_module("tpack.utils.gpu")
    assert tower.TowerFuncWrapper is tower.TowerFunc
    assert varmanip.load_chkpt_vars is varmanip.load_checkpoint_vars
    assert gpu.get_nr_gpu is gpu.get_num_gpu


def test_modules_hand_on_what_packages_offer() -> None:
    for module in ("callbacks.param", "dataflow.common", "models.common", "train.tower", "utils.utils"):
        loaded = importlib.import_module(f"tpack.{module}")
        package = importlib.import_module(f"tpack.{module.partition('.')[0]}")
        home = {**vars(importlib.import_module("tpack.models.registry")), **vars(importlib.import_module("tpack"))}
        for name in NAMES[module].split():
            assert getattr(loaded, name) is (getattr(package, name, None) or home[name])


def test_the_first_version_of_tensorflow_is_at_the_top() -> None:
    namespace: dict[str, object] = {}
    exec("from tpack import tfv1", namespace)
    assert namespace["tfv1"] is importlib.import_module("tensorflow.compat.v1")

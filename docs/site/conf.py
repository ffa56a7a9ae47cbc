"""conf - how Sphinx makes the site of build/docs-src, which stage.py writes: `make docs`."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]

import gpuops  # noqa: E402

project = "gpuops"
author = "The gpuops authors"
copyright = author
release = version = gpuops.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "extras",
]
root_doc = "index"
nitpicky = False

# Outputs are those on file: a notebook's page shows what ran, and building runs nothing.
nb_execution_mode = "off"
nb_ipywidgets_js = {}
nb_merge_streams = True
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

numpydoc_show_class_members = False
default_role = "py:obj"  # `reduce` in a docstring leads to its page
autodoc_member_order = "bysource"
autodoc_typehints = "none"
add_module_names = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "gpuops"
html_static_path = ["static"]
html_search_scorer = str(HERE / "static" / "search_order.js")
html_css_files = ["gpuops.css"]
html_sourcelink_suffix = ""
html_show_sourcelink = True
html_math_renderer = "mathml"
html_theme_options = {
    "show_nav_level": 1,
    "navigation_depth": 3,
    "collapse_navigation": True,
    "show_toc_level": 2,
    "show_prev_next": True,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": False,
}
html_context = {"default_mode": "auto"}
pygments_style = "tango"

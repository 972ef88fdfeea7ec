# SPDX-License-Identifier: Apache-2.0
# libstdc++ has two layouts of std::string; Status holds one. 0 is the old layout, which the x86 wheels of PyTorch 2.6 were
# compiled with: a core with the other one links and then frees what it never had. Targets that link fusednorm inherit it.
if(FUSEDNORM_TORCH AND NOT DEFINED FUSEDNORM_CXX11_ABI)
  set(FUSEDNORM_CXX11_ABI ${FUSEDNORM_TORCH_CXX11_ABI})
endif()
if(DEFINED FUSEDNORM_CXX11_ABI AND NOT FUSEDNORM_CXX11_ABI)
  if(FUSEDNORM_TESTS)
    message(FATAL_ERROR
      "fusednorm: FUSEDNORM_TESTS=ON with the old C++ ABI of torch ${FUSEDNORM_TORCH_VERSION}: GoogleTest has the new one. "
      "Build the tests without FUSEDNORM_TORCH, or with a torch from 2.7 on.")
  endif()
  target_compile_definitions(fusednorm PUBLIC _GLIBCXX_USE_CXX11_ABI=0)
endif()

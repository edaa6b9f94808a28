-- Neovim with nvim-dap: all ranks of a Python program, an MPI program or a scenario.
local dap = require('dap')
dap.adapters.lockstep = { type = 'executable', command = 'lockstep', args = { 'dap' } }
-- Several ranks stop at once. By default nvim-dap continues all but the first.
dap.defaults.lockstep.auto_continue_if_many_stopped = false

local function add(language, settings)
  dap.configurations[language] = dap.configurations[language] or {}
  table.insert(dap.configurations[language],
    vim.tbl_extend('force', { type = 'lockstep', request = 'launch', cwd = '${workspaceFolder}' }, settings))
end

add('python', { name = 'all ranks', program = '${file}', ranks = 4 })
add('c', { name = 'MPI: all ranks', program = '${fileDirname}/${fileBasenameNoExtension}', ranks = 4 })
add('yaml', { name = 'scenario: all ranks', program = '${file}' })
